package main

import "testing"

// TestMemberHost: the other members of a hub need one address by which they reach this one.
func TestMemberHost(t *testing.T) {
	if host, err := memberHost("10.0.0.1:10349"); err != nil || host != "10.0.0.1" {
		t.Error(host, err)
	}
	for _, wrong := range []string{anyLocalPort, "0.0.0.0:10349", "hub:10349", "10.0.0.1", "[fd00::1]:10349", ""} {
		if host, err := memberHost(wrong); err == nil {
			t.Errorf("%q: %s", wrong, host)
		}
	}
}
