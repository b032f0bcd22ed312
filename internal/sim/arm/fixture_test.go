package arm_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azarm "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resourcegraph/armresourcegraph"

	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/calls"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

const (
	tenantID     = "11111111-2222-4333-8444-555555555555"
	subscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	region       = "westeurope"
	secret       = "correct horse"
)

// clock is the simulated time.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// lab is a simulator with the usual estate and the official clients of one principal.
type lab struct {
	t       *testing.T
	world   *simworld.World
	clock   *clock
	server  *httptest.Server
	journal *calls.Journal
	faults  *calls.Faults
	client  string

	vnet, nsgWeb, asgWeb    string
	web, db, webNIC, dbNIC  string
	peerVNet, far, otherASG string
}

type options struct {
	delay, lag time.Duration
	config     func(*arm.Config)
	estate     func(*build.Builder)
}

func newLab(t *testing.T, o options) *lab {
	t.Helper()
	l := &lab{t: t, clock: &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}, journal: calls.NewJournal(1000), faults: &calls.Faults{}}
	b := build.New(tenantID, subscription, region)
	l.client = b.Principal("nephele", secret)
	l.nsgWeb = b.SecurityGroup("shop", "nsg-web",
		build.Rule("https", "Inbound", 100, "Allow", "Tcp", "Internet", "", "443"),
		build.Rule("no-ssh", "Inbound", 200, "Deny", "Tcp", "", "", "22"))
	subnetNSG := b.SecurityGroup("shop", "nsg-db-subnet", build.Rule("no-web", "Inbound", 300, "Deny", "Tcp", "10.1.1.0/24", "", "5000-5999"))
	l.vnet = b.Network("shop", "vnet-a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"}, []string{"db", "10.1.2.0/24", subnetNSG})
	l.peerVNet = b.Network("shop", "vnet-b", []string{"10.2.0.0/16"}, []string{"far", "10.2.1.0/24"})
	b.Peer(l.vnet, l.peerVNet)
	l.asgWeb = b.ApplicationGroup("shop", "asg-web")
	l.otherASG = b.ApplicationGroup("shop", "asg-far")
	l.web, l.webNIC = b.Machine("Shop", "web-1", l.vnet+"/subnets/web", "10.1.1.4", l.nsgWeb, l.asgWeb)
	l.db, l.dbNIC = b.Machine("SHOP", "db-1", l.vnet+"/subnets/db", "10.1.2.4", "")
	_, l.far = b.Machine("shop", "far-1", l.peerVNet+"/subnets/far", "10.2.1.4", "", l.otherASG)
	if o.estate != nil {
		o.estate(b)
	}
	w, err := simworld.New(aws.State{Azure: &b.State}, simworld.Options{Clock: l.clock.now, Seed: 1, OperationDelay: o.delay, GraphLag: o.lag})
	if err != nil {
		t.Fatal(err)
	}
	l.world = w
	cfg := arm.Config{World: w, Clock: l.clock.now, Faults: l.faults, Journal: l.journal}
	if o.config != nil {
		o.config(&cfg)
	}
	l.server = httptest.NewTLSServer(arm.NewHandler(cfg))
	t.Cleanup(l.server.Close)
	return l
}

func (l *lab) cloud() cloud.Configuration {
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: l.server.URL,
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: l.server.URL, Audience: "https://management.core.windows.net/"},
		},
	}
}

func (l *lab) options() policy.ClientOptions {
	return policy.ClientOptions{
		Cloud: l.cloud(), Transport: l.server.Client(),
		Retry: policy.RetryOptions{MaxRetries: -1},
	}
}

func (l *lab) credentialOf(client, secret string) azcore.TokenCredential {
	l.t.Helper()
	c, err := azidentity.NewClientSecretCredential(tenantID, client, secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: l.options(), DisableInstanceDiscovery: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l *lab) armOptions() *azarm.ClientOptions {
	return &azarm.ClientOptions{ClientOptions: l.options(), DisableRPRegistration: true}
}

// clients are the official clients.
type clients struct {
	network *armnetwork.ClientFactory
	compute *armcompute.ClientFactory
	graph   *armresourcegraph.Client
}

func (l *lab) clients(cred azcore.TokenCredential) clients {
	l.t.Helper()
	n, err := armnetwork.NewClientFactory(subscription, cred, l.armOptions())
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := armcompute.NewClientFactory(subscription, cred, l.armOptions())
	if err != nil {
		l.t.Fatal(err)
	}
	g, err := armresourcegraph.NewClient(cred, l.armOptions())
	if err != nil {
		l.t.Fatal(err)
	}
	return clients{n, c, g}
}

func (l *lab) usual() clients { return l.clients(l.credentialOf(l.client, secret)) }

// as are the clients of a further principal that has these roles.
func (l *lab) as(name string, assignments ...azure.Assignment) clients {
	p := azure.Principal{Tenant: tenantID, ClientID: build.GUIDOf("client " + name), ObjectID: build.GUIDOf("object " + name), Secrets: []string{name}, Assignments: assignments}
	l.change(func(c *azure.Cloud) { c.SetPrincipal(p) })
	return l.clients(l.credentialOf(p.ClientID, name))
}

func (l *lab) change(f func(*azure.Cloud)) {
	l.t.Helper()
	if err := l.world.ChangeAzure("", "", "test", func(c *azure.Cloud, _ time.Time) ([]string, error) { f(c); return nil, nil }); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) allowed(f azure.Flow) azure.Verdict {
	l.t.Helper()
	var v azure.Verdict
	var err error
	l.world.ReadAzure(func(c *azure.Cloud, _ time.Time) { v, err = c.Verdicts().Allowed(f) })
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

// expectCode checks the status and the code of a refusal.
func expectCode(t *testing.T, err error, status int, code string) {
	t.Helper()
	var e *azcore.ResponseError
	if !errors.As(err, &e) {
		t.Errorf("got %v, want the refusal %s", err, code)
		return
	}
	if e.StatusCode != status || e.ErrorCode != code {
		t.Errorf("got %d %s, want %d %s\n%v", e.StatusCode, e.ErrorCode, status, code, err)
	}
}

func ifMatch(ctx context.Context, etag string) context.Context {
	return policy.WithHTTPHeader(ctx, http.Header{"If-Match": []string{etag}})
}

func ptr[T any](v T) *T { return &v }
