package estate

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

// TestListInPlaceOfAnswer: what --query cuts out is refused with what is wanted.
func TestListInPlaceOfAnswer(t *testing.T) {
	if _, err := membersOf("x.json", []byte(" [[]]")); err == nil || !strings.Contains(err.Error(), "x.json: a list, as --query of aws makes: expected the whole answer") {
		t.Errorf("%v", err)
	}
}
