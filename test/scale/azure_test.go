package scale

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	azurelower "github.com/nephele-io/nephele/internal/cloud/azure/lower"
	"github.com/nephele-io/nephele/internal/cloud/pace"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	simcalls "github.com/nephele-io/nephele/internal/sim/calls"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	azureTenant       = "11111111-2222-4333-8444-555555555555"
	azureSubscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
)

// newAzureFleet is newFleet in a subscription, whose rates are those that Azure documents.
func newAzureFleet(t *testing.T, n, roles int, latency time.Duration) *fleet {
	t.Helper()
	b := build.New(azureTenant, azureSubscription, "westeurope")
	client := b.Principal("nephele", "secret")
	vnet := b.Network("fleet", "fleet", []string{"10.0.0.0/8"}, []string{"all", "10.0.0.0/8"})
	var groups []string
	for i := range roles {
		groups = append(groups, b.SecurityGroup("fleet", fmt.Sprintf("r%d", i), build.Rule("ssh", "Inbound", 100, "Allow", "Tcp", "10.0.0.0/8", "", "22")))
	}
	addr := netip.MustParseAddr("10.0.0.10")
	for i := range n {
		b.Machine("fleet", fmt.Sprintf("r%d-%05d", i%roles, i), vnet+"/subnets/all", addr.String(), groups[i%roles])
		addr = addr.Next()
	}
	w, err := world.New(aws.State{Azure: &b.State}, world.Options{Clock: time.Now, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{T: t, region: "westeurope", engine: compute.New(compute.Options{}), store: watchstore.New(watchstore.Options{}), vms: map[string]policy.Entity{}}
	f.calls = &calls{latency: latency, count: map[string]int{}, handler: arm.NewHandler(arm.Config{
		World: w, Clock: time.Now, WallClock: time.Now, Throttle: arm.NewThrottle(time.Now, 1),
		OnCall: func(_ context.Context, c simcalls.Call) error { f.calls.sawAzure(c); return nil },
	})}
	place := &cloudv1.AzureCloud{Authority: "https://azure.test", ResourceManager: "https://azure.test", Audience: "https://management.azure.com"}
	limiter := pace.New(pace.Options{Now: time.Now, After: time.After, Rate: azure.Documented})
	p, err := azure.New(azure.Config{
		Credential: cloudv1.AzureCredential{SubscriptionID: azureSubscription, TenantID: azureTenant, ClientID: client, ClientKey: "secret"},
		Account:    account, Cluster: cluster, Cloud: place, Transport: roundTrip(f.calls.Do), Admit: clouds.AdmitAzure(limiter, place),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.provider, f.lowerer = p, azurelower.Azure{}
	f.load()
	return f
}

// roundTrip is a network without one.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f(r)
	if err == nil {
		resp.Request = r
	}
	return resp, err
}

func (c *calls) sawAzure(call simcalls.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Status == http.StatusTooManyRequests {
		c.refused++
		return
	}
	c.count[call.Action]++
}

// writes counts the calls of Azure that change something.
func (c *calls) writes() (all, network int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, n := range c.count {
		if strings.HasSuffix(a, "/write") || strings.HasSuffix(a, "/delete") {
			all += n
			if strings.HasPrefix(a, "Microsoft.Network/") {
				network += n
			}
		}
	}
	return all, network
}

// azureLimit is how long changes take by the buckets of Resource Manager and of the network
// provider alone.
func (f *fleet) azureLimit() time.Duration {
	all, network := f.calls.writes()
	return max(bucket(all, 200, 10), bucket(network, 1000, 1000.0/300))
}

func (f *fleet) azureRow(what string, took time.Duration) {
	f.Helper()
	limit := f.azureLimit()
	all, network := f.calls.writes()
	f.Logf("| %s | %.1f s | %.1f s | %d | %d | %d | %d |", what, took.Seconds(), limit.Seconds(),
		f.calls.total("Microsoft.Network/networkInterfaces/write"), network, all, f.calls.throttled())
}

// TestAzureTakeOver is TestTakeOver under the rates of Azure: what bounds it is that every VM takes
// two writes, the tag that remembers its group and the interface.
func TestAzureTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sized(1000, 150)
		f := newAzureFleet(t, n, 10, latency)
		f.start()
		f.twenty()
		f.publish()
		took := f.settle(time.Hour)
		f.azureRow(fmt.Sprintf("first take-over of %d VMs, 20 policies", n), took)
		if edits := f.calls.total("Microsoft.Network/networkInterfaces/write"); edits != n {
			t.Errorf("%d edits of %d interfaces", edits, n)
		}
		if all, _ := f.calls.writes(); all > 2*n+100 {
			t.Errorf("%d writes for %d VMs", all, n)
		}
		f.within(took, f.azureLimit(), 15*time.Second)

		time.Sleep(time.Hour) // the buckets fill up
		f.calls.reset()
		f.engine.PutPolicy(admit("everywhere", &policy.Selector{}, "r3", 9100))
		f.publish()
		took = f.settle(time.Hour)
		f.azureRow(fmt.Sprintf("one more policy for all %d VMs", n), took)
		if groups := f.calls.total("Microsoft.Network/networkSecurityGroups/write"); groups != 10 {
			t.Errorf("%d writes of groups for ten classes", groups)
		}

		time.Sleep(time.Hour)
		f.calls.reset()
		f.relabel(f.names[n/2], "r7")
		f.publish()
		took = f.settle(time.Hour)
		f.azureRow("one VM changes its class", took)
		if all, _ := f.calls.writes(); all > 2 {
			t.Errorf("%d writes, want at most 2", all)
		}
	})
}

// TestAzureManyPolicies is TestManyPolicies: one network security group holds them all, and one
// write brings all of what is changed at once.
func TestAzureManyPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAzureFleet(t, 60, 60, latency)
		f.start()
		for i := range 50 {
			f.engine.PutPolicy(admit(fmt.Sprintf("p%02d", i), role("r0"), fmt.Sprintf("r%d", 1+i), int32(1000+i)))
		}
		f.publish()
		took := f.settle(time.Hour)
		f.azureRow("50 policies on one VM", took)
		// The VM and its 50 peers, which are members by name from now on.
		if n := f.calls.total("Microsoft.Network/networkInterfaces/write"); n > 52 {
			t.Errorf("%d edits of interfaces", n)
		}
		if r, _ := f.realizer.Report(account); len(r.Result.Refusals) > 0 {
			t.Errorf("refused: %+v", r.Result.Refusals)
		}
		time.Sleep(time.Hour)
		f.calls.reset()
		for i := range 10 {
			f.engine.PutPolicy(admit(fmt.Sprintf("q%02d", i), role("r0"), fmt.Sprintf("r%d", 1+i), int32(2000+i)))
		}
		f.publish()
		took = f.settle(time.Hour)
		f.azureRow("10 more policies on that VM", took)
		if n := f.calls.total("Microsoft.Network/networkSecurityGroups/write"); n != 1 {
			t.Errorf("%d writes of groups, want one", n)
		}
	})
}

// TestAzureChurn changes labels for a while, then gives the whole fleet back: one edit of each
// interface again.
func TestAzureChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, perSecond, seconds := sized(1000, 40), 2, sized(60, 10)
		f := newAzureFleet(t, n, 10, latency)
		changes, took := f.azureChurn(perSecond, seconds)
		edits := f.calls.total("Microsoft.Network/networkInterfaces/write")
		f.azureRow(fmt.Sprintf("%d label changes per second for %d s, %d VMs", perSecond, seconds, n), took)
		if edits > 2*changes || took > time.Duration(seconds+20)*time.Second {
			t.Errorf("%d edits for %d changes, settled after %s: want at most 2 for each, and 20 s after the last", edits, changes, took)
		}
		time.Sleep(time.Hour)
		f.calls.reset()
		for i := range 20 {
			f.engine.DeletePolicy(fmt.Sprintf("uid-p%02d", i))
		}
		f.publish()
		took = f.settle(time.Hour)
		f.azureRow(fmt.Sprintf("all %d VMs are given back", n), took)
		if edits := f.calls.total("Microsoft.Network/networkInterfaces/write"); edits != n {
			t.Errorf("%d edits of %d interfaces", edits, n)
		}
	})
}

func (f *fleet) azureChurn(perSecond, seconds int) (changes int, took time.Duration) {
	f.Helper()
	f.start()
	f.twenty()
	f.publish()
	f.settle(24 * time.Hour)
	time.Sleep(time.Hour)
	f.calls.reset()
	start := time.Now()
	changes = seconds * perSecond
	for i := range changes {
		if i > 0 {
			time.Sleep(time.Second / time.Duration(perSecond))
		}
		name := f.names[i*37%len(f.names)]
		f.relabel(name, fmt.Sprintf("r%d", (i*37+1+i%3)%10))
		f.publish()
	}
	f.settle(24 * time.Hour)
	return changes, time.Since(start)
}
