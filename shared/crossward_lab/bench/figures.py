"""Which figures there are: like the papers', as PNG and SVG. `drawing` draws them with matplotlib, if it is there."""

from __future__ import annotations

from pathlib import Path

from crossward_lab.bench.measurements import Measurement


class NoPlotsError(Exception):
    """matplotlib is not here, and how to get it."""


def require_matplotlib() -> None:
    """Refuse in one line, not with a traceback."""
    try:
        import matplotlib  # noqa: F401, PLC0415 - whether it is there is the question
    except ModuleNotFoundError:
        raise NoPlotsError('matplotlib is not installed; `pip install ".[plots]"` or `make results` does.') from None


def draw_all(found: list[Measurement], folder: Path) -> list[Path]:
    """The figures of every setting in the rows; the PNGs written, each with an SVG beside it."""
    require_matplotlib()
    from crossward_lab.bench.drawing import (  # noqa: PLC0415
        draw_combiners,
        draw_setting,
        draw_sites,
    )
    from crossward_lab.bench.tables import varied  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for setting in dict.fromkeys(row.setting for row in found):
        here = [row for row in found if row.setting == setting]
        place = folder / file_name(here[0].dataset, setting)
        results = [row for row in here if row.site is None]
        if varied(results) == "combiner":
            written.append(draw_combiners(here, place))
        elif len({row.epsilon for row in results} | {str(row.options) for row in results}) > 2:
            levels = [row for row in found if row.setting == f"{setting}, baselines" and row.site is None]
            written.append(draw_setting(results, place, levels))
        sites = [row for row in here if row.site is not None and row.epsilon == 1.0 and not row.options]
        if len({row.site for row in sites}) > 2 and setting.endswith("16"):
            written.append(draw_sites(sites, folder / f"{place.name}-sites"))
    return written


def file_name(dataset: str, setting: str) -> str:
    """mnist-0v8-to-0v9-K."""
    plain = setting.replace("->", "-to-").replace(", ", "-").replace(" ", "-")
    return f"{dataset}-{plain}".lower()
