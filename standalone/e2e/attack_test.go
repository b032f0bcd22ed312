package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAttack is the suite of one tenant against another. All of it shares one control plane, whose
// process is started anew where the parts need other flags or another environment. Each part leaves
// the owner's estate as it found it, or the suite ends.
func TestAttack(t *testing.T) {
	t.Parallel()
	// Nothing of the user who runs the tests; the controller has an identity of its own in the
	// cloud, and the owner has a role that trusts it.
	none := filepath.Join(t.TempDir(), "none")
	env := map[string]string{"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true", "AWS_SESSION_TOKEN": "",
		"AWS_ACCESS_KEY_ID": controllerKey, "AWS_SECRET_ACCESS_KEY": keySecret, "AWS_PROFILE": "", "NO_PROXY": "127.0.0.1,localhost"}
	x := newTenants(t)
	forbidden, taker := newTrap(t), newTrap(t)
	redirects := newRedirector(t, forbidden)
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	metrics := freePort(t)
	a := newArena(
		t,
		x,
		env,
		"--allowed-endpoints="+host(x.server.URL())+","+host(redirects.url)+",127.0.0.1:"+taker.port,
		"--ambient-identity-namespaces=ns-ops",
		"--metrics=0.0.0.0:"+metrics,
	)
	a.grantUse(mallory, "selector-administrator")
	a.create(a.text("{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: restricted, labels: {nephele.io/use: required}}, spec: {priority: 20}}"))
	a.settle()
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"table", a.tables},
		{"owner's word", a.ownersWord},
		{"with grants", a.grantsWork},
		{"endpoints", func(t *testing.T) { a.endpoints(t, forbidden, redirects) }},
		{"identity", a.identity},
		{"web identity", func(t *testing.T) {
			env["GOGC"] = "" // from here on the memory of the process is measured
			a.webIdentity(t, taker)
		}},
		{"served", func(t *testing.T) { a.servedAPI(t, metrics) }},
		{"hostile endpoints", a.hostileEndpoints},
	} {
		if t.Run(part.name, part.run); a.lost {
			t.Fatal("the owner's estate is not what it was: the other parts would prove nothing")
		}
	}
}

// restart ends the process and starts it again on the same data.
func (a *arena) restart() {
	a.t.Helper()
	a.c.stop()
	a.c.start()
	a.c.waitReady()
}
