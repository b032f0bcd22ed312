package dump

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestTimes reads the notations that tools have for times.
func TestTimes(t *testing.T) {
	want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{`"2026-03-01T12:00:00Z"`, `"2026-03-01 12:00:00+00:00"`, `1772366400`, `1772366400.0`, `1772366400000`} {
		var got rawTime
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{`"yesterday"`, `-5`, `1e30`, `{}`} {
		var got rawTime
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestRegionOfZones: Local and Wavelength Zones lie in the region that their name begins with.
func TestRegionOfZones(t *testing.T) {
	for zone, want := range map[string]string{
		"us-west-2a": "us-west-2", "us-west-2-lax-1a": "us-west-2", "us-east-1-wl1-bos-wlz-1": "us-east-1", "us-gov-west-1b": "us-gov-west-1",
		"ap-southeast-10c": "ap-southeast-10", "us-iso-east-1a": "us-iso-east-1", "": "", "us-west-2": "", "a": "",
	} {
		if got := regionOf(zone); got != want {
			t.Errorf("%q is of %q, want %q", zone, got, want)
		}
	}
}
