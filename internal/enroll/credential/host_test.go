package credential

import "testing"

func TestParseHost(t *testing.T) {
	for _, text := range []string{"", "web", "/web", "vms/", "a/b/c"} {
		if _, err := ParseHost(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
