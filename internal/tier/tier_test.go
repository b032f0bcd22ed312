package tier

import "testing"

func TestPick(t *testing.T) {
	for value, want := range map[string]int{"": 2, "1": 3} {
		t.Setenv(variable, value)
		if value == "" && testing.Short() {
			want = 1
		}
		if got := Pick(1, 2, 3); got != want {
			t.Errorf("%s=%q: %d, want %d", variable, value, got, want)
		}
	}
}

func TestOnlyLong(t *testing.T) {
	for value, want := range map[string]bool{"": true, "1": false} {
		t.Setenv(variable, value)
		skipped := false
		t.Run("a test of the long tier", func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			OnlyLong(t, "TestPick proves something else")
		})
		if skipped != want {
			t.Errorf("%s=%q: skipped %v, want %v", variable, value, skipped, want)
		}
	}
}
