package credential

import (
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for _, text := range []string{"", "web", "/web", "vms/", "a/b/c"} {
		if _, err := ParseHost(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestClusterInvitation: a token for a cluster is read as it was written, and nowhere else.
func TestClusterInvitation(t *testing.T) {
	i := Invitation{Host: Cluster("east"), Secret: "S", Authority: strings.Repeat("ab", 32), Server: "hub.example.org:10349,[fd00::1]:443"}
	if got, err := ParseClusterInvitation(i.String() + "\n"); err != nil || got != i {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseInvitation(i.String()); err == nil || !strings.Contains(err.Error(), "nephele join") {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "cluster:east:S:ab@h:1", strings.Split(i.String(), "@")[0], strings.Split(i.String(), "@")[0] + "@", strings.Replace(i.String(), "east", "East", 1),
		strings.Replace(i.String(), ":443", "", 1), strings.Replace(i.String(), "cluster:", "vms/", 1), i.String() + strings.Repeat(",h:1", 8)} {
		if _, err := ParseClusterInvitation(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
