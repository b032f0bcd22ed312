package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/controller"
)

// standIn is a policy controller in the process of the test, which stands in for an Antrea
// Controller: all that "nephele up" of another process knows of it is its API.
type standIn struct {
	t       *testing.T
	cluster *cluster
	address string
	dir     string
	stop    func()
}

func newStandIn(t *testing.T, c *cluster) *standIn {
	t.Helper()
	return &standIn{t: t, cluster: c, address: freeAddress(t), dir: t.TempDir()}
}

// start runs the controller until stop, or the end of the test.
func (a *standIn) start() {
	a.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.cluster.dir, "kubeconfig"))
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, cfg, controller.Options{
			Log: logr.Discard(), NoClouds: true, Ready: func() { close(ready) },
			// With a holder of its own its lease outlives the restart of kube-apiserver.
			Lease: controller.LeaseOptions{Holder: "stand-in"},
			API:   &controller.APIOptions{Address: a.address, CertDir: a.dir, Local: true},
		})
	}()
	stopped := false
	a.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	}
	a.t.Cleanup(a.stop)
	select {
	case <-ready:
	case err := <-done:
		a.t.Fatalf("the controller that stands in has ended: %v", err)
	case <-time.After(time.Minute):
		a.t.Fatal("the controller that stands in is not ready")
	}
}

// kubeconfig writes one that leads to the controller's own port.
func (a *standIn) kubeconfig() string {
	a.t.Helper()
	config, err := clientcmd.LoadFromFile(filepath.Join(a.cluster.dir, "kubeconfig"))
	if err != nil {
		a.t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(a.dir, "nephele-ca.crt"))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthority, c.CertificateAuthorityData = "https://"+a.address, "", ca
	}
	path := filepath.Join(a.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// TestAntreaControllerComputes: the VMs are under the policies that a controller of another process
// computes, and that gets to know what became of them. While it is away everything stays as it is.
func TestAntreaControllerComputes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--antrea")
	im := importAccount(t, c, hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	a := newStandIn(t, c)
	a.start()
	create := func(n int) {
		t.Helper()
		next := im.oracle.copy()
		next.policies = append(next.policies, policies[n])
		im.step("create "+policies[n].GetName(), next, func() { im.create(policies[n]) })
		im.waitForPhase(policies[:n+1], v1beta1.NetworkPolicyRealized)
	}
	create(0)

	// Through the controller's absence, with a change of labels in it.
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)
	a.stop()
	moved := firstWithRole(hybridCloud, "app")
	im.setRole(moved, "db")
	roles := maps.Clone(hybridCloud.roles)
	roles[moved] = "db"
	enforced := im.oracle.copy()
	im.waitForRoles(roles) // and the oracle has read them
	im.oracle = enforced
	im.settle("while nobody computes policies", want)
	im.step("the controller is back", im.oracle.withRole(moved, "db"), a.start)
	im.waitForPhase(policies[:1], v1beta1.NetworkPolicyRealized)

	// The same not through kube-apiserver.
	c.stop()
	c.args = []string{"--antrea-kubeconfig", a.kubeconfig()}
	c.start()
	c.waitReady()
	create(1)
	im.deleteFirst()
	im.deleteFirst()
	im.mustBeReleased()
}
