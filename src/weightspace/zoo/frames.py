"""Tables as pandas data frames; pandas is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weightspace.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def data_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a data frame.

    Raises:
        DataError: pandas is not installed.
    """
    require_pandas()
    import pandas as pd  # noqa: PLC0415 (optional)

    return pd.DataFrame([dict(row) for row in rows])


def table_frame(table: pa.Table) -> pd.DataFrame:
    """A table as a data frame.

    Raises:
        DataError: pandas is not installed.
    """
    require_pandas()
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    return frame


def require_pandas() -> None:
    """Check that pandas is installed.

    Raises:
        DataError: it is not.
    """
    try:
        import pandas  # noqa: F401, PLC0415
    except ImportError as error:
        raise DataError(
            "data frame",
            expected="pandas",
            found="no such package",
            hint="Install it: pip install 'weightspace[pandas]'.",
        ) from error
