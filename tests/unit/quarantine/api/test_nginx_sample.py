"""What docs/samples/nginx.conf must say, for answers behind it to be what the API sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SAMPLE: Final = Path(__file__).parents[4] / "docs" / "samples" / "nginx.conf"


def test_an_answer_that_is_cut_off_does_not_look_whole() -> None:
    """nginx asks by HTTP/1.0 unless told: there the end of the connection ends an answer."""
    text = re.sub(r"#.*", "", SAMPLE.read_text())
    server, *locations = re.split(r"\n    location ", text)
    assert re.search(r"proxy_http_version\s+1\.1;", server)
    # Else nginx says "Connection: close".
    assert re.search(r'proxy_set_header\s+Connection\s+"";', server)
    assert len(locations) == 2
    for location in locations:
        assert "proxy_http_version" not in location
        assert "proxy_set_header" not in location, "those of the server would count no more"
