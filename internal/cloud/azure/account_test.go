package azure_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

const (
	tenantID     = "11111111-2222-4333-8444-555555555555"
	subscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	region       = "westeurope"
	secret       = "correct horse"
)

var inRegion = cloud.Scope{Account: "shop/azure", Region: region}

// lab is a simulated subscription and an account of it.
type lab struct {
	t       *testing.T
	world   *simworld.World
	server  *httptest.Server
	faults  *calls.Faults
	journal *calls.Journal
	client  string
	now     time.Time

	vnet, nsg, subnetNSG, asg string
	web, webNIC, db, dbNIC    string
}

func newLab(t *testing.T, more func(*build.Builder)) *lab {
	t.Helper()
	l := &lab{t: t, faults: &calls.Faults{}, journal: calls.NewJournal(1000), now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	b := build.New(tenantID, subscription, region)
	l.client = b.Principal("nephele", secret)
	l.nsg = b.SecurityGroup("shop", "nsg-web", build.Rule("https", "Inbound", 100, "Allow", "Tcp", "Internet", "", "443"))
	l.subnetNSG = b.SecurityGroup("shop", "nsg-subnet")
	l.vnet = b.Network("shop", "vnet-a", []string{"10.1.0.0/16", "fd00:1::/48"}, []string{"web", "10.1.1.0/24"}, []string{"db", "10.1.2.0/24", l.subnetNSG})
	peer := b.Network("shop", "vnet-b", []string{"10.2.0.0/16"}, []string{"far", "10.2.1.0/24"})
	b.Peer(l.vnet, peer)
	l.asg = b.ApplicationGroup("shop", "asg-web")
	// The cloud itself writes ids in several cases.
	l.web, l.webNIC = b.Machine("SHOP", "web-1", strings.ToUpper(l.vnet)+"/subnets/WEB", "10.1.1.4", strings.ToUpper(l.nsg), l.asg)
	l.db, l.dbNIC = b.Machine("Shop", "db-1", l.vnet+"/subnets/db", "10.1.2.4", "")
	if more != nil {
		more(b)
	}
	w, err := simworld.New(aws.State{Azure: &b.State}, simworld.Options{Clock: func() time.Time { return l.now }, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.world = w
	l.server = httptest.NewTLSServer(arm.NewHandler(arm.Config{World: w, Clock: func() time.Time { return l.now }, Faults: l.faults, Journal: l.journal, PageSize: 3}))
	t.Cleanup(l.server.Close)
	return l
}

func (l *lab) config() azure.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	return azure.Config{
		Credential: v1alpha1.AzureCredential{SubscriptionID: subscription, TenantID: tenantID, ClientID: l.client, ClientKey: secret}, Account: "shop/azure",
		Cloud:       &v1alpha1.AzureCloud{Authority: l.server.URL, ResourceManager: l.server.URL, Audience: "https://management.azure.com", CABundle: string(ca)},
		MaxAttempts: 1, Now: func() time.Time { return l.now },
	}
}

func (l *lab) account(change ...func(*azure.Config)) *azure.Account {
	l.t.Helper()
	cfg := l.config()
	for _, f := range change {
		f(&cfg)
	}
	a, err := azure.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

func (l *lab) change(f func(*simazure.Cloud)) {
	l.t.Helper()
	if err := l.world.ChangeAzure("", "", "test", func(c *simazure.Cloud, _ time.Time) ([]string, error) { f(c); return nil, nil }); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) observe(a *azure.Account) *cloud.Snapshot {
	l.t.Helper()
	s, err := a.Observe(l.t.Context(), inRegion)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func lower(all ...string) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = strings.ToLower(all[i])
	}
	slices.Sort(out)
	return out
}

// document is an interface as the simulator shows it, without etags.
func (l *lab) document(id string) string {
	l.t.Helper()
	var doc map[string]any
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		at, _ := document.ParseID(id)
		p := c.Principals()[0]
		var err error
		if doc, err = c.Get(&p, at); err != nil {
			l.t.Fatal(err)
		}
	})
	raw, err := json.Marshal(doc)
	if err != nil {
		l.t.Fatal(err)
	}
	var back any
	if err := json.Unmarshal(raw, &back); err != nil {
		l.t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "etag")
			for _, x := range v {
				strip(x)
			}
		case []any:
			for _, x := range v {
				strip(x)
			}
		}
	}
	strip(back)
	if raw, err = json.Marshal(back); err != nil {
		l.t.Fatal(err)
	}
	return string(raw)
}

// TestObserve reads a region over several pages; ids are one whatever their case.
func TestObserve(t *testing.T) {
	l := newLab(t, func(b *build.Builder) {
		for i := range b.State.Resources {
			switch r := &b.State.Resources[i]; {
			case strings.HasSuffix(r.ID, "/web-1"):
				r.Properties["timeCreated"] = "2026-04-30T12:00:00.1234567+00:00"
			case strings.HasSuffix(r.ID, "/db-1"):
				r.Properties["timeCreated"] = "once" // what cannot be read is not said
			}
		}
	})
	s := l.observe(l.account())
	if len(s.Networks) != 2 || len(s.VMs) != 2 || len(s.Interfaces) != 2 || len(s.Groups) != 2 || len(s.Peerings) != 1 || !s.Peerings[0].ByAddress || s.OwnerID != subscription {
		t.Fatalf("%d networks, %d VMs, %d interfaces, %d groups, %d peerings of %s", len(s.Networks), len(s.VMs), len(s.Interfaces), len(s.Groups), len(s.Peerings), s.OwnerID)
	}
	vnet := strings.ToLower(l.vnet)
	web := s.VMs[slices.IndexFunc(s.VMs, func(v cloud.VM) bool { return v.Name == "web-1" })]
	want := cloud.VM{
		ID:         strings.ToLower(l.web),
		UID:        build.GUIDOf("vm web-1"),
		Created:    time.Date(2026, 4, 30, 12, 0, 0, 0, time.UTC),
		Name:       "web-1",
		NetworkID:  vnet,
		State:      cloud.VMRunning,
		Tags:       map[string]string{"app": "web-1"},
		Interfaces: lower(l.webNIC),
	}
	if !reflect.DeepEqual(web, want) {
		t.Errorf("got %+v\nwant %+v", web, want)
	}
	if db := s.VMs[slices.IndexFunc(s.VMs, func(v cloud.VM) bool { return v.Name == "db-1" })]; !db.Created.IsZero() {
		t.Errorf("made at %s", db.Created)
	}
	nic := s.Interfaces[slices.IndexFunc(s.Interfaces, func(i cloud.Interface) bool { return i.ID == strings.ToLower(l.webNIC) })]
	if len(nic.GroupIDs) != 1 || !strings.HasPrefix(nic.GroupIDs[0], strings.ToLower(l.nsg)+"@") || nic.NetworkID != vnet || nic.VMID != want.ID || nic.SubnetID != vnet+"/subnets/web" || nic.MAC != "00:0d:3a:00:00:01" ||
		len(nic.PrivateIPs) != 1 ||
		nic.PrivateIPs[0].String() != "10.1.1.4" {
		t.Errorf("interface %+v", nic)
	}
	for _, g := range s.Groups {
		if g.NetworkID != vnet {
			t.Errorf("group %s is of network %q", g.ID, g.NetworkID)
		}
	}
	if p := s.Peerings[0]; p.A.NetworkID != vnet || p.B.Region != region || len(p.B.CIDRs) != 1 || p.B.CIDRs[0].String() != "10.2.0.0/16" {
		t.Errorf("peering %+v", p)
	}
	if got := s.Networks[0].CIDRs; len(got) != 2 || got[1].String() != "fd00:1::/48" {
		t.Errorf("ranges %v", got)
	}
}

// TestObserveWhatMayNotBeRead: what Resource Graph leaves out is read directly, and what may not be
// read is an error and not an absence.
func TestObserveWhatMayNotBeRead(t *testing.T) {
	l := newLab(t, nil)
	role := func(actions ...string) []simazure.Assignment {
		return []simazure.Assignment{{Scope: "/subscriptions/" + subscription, Role: simazure.Role{Name: "r", Actions: actions}}}
	}
	set := func(a []simazure.Assignment) {
		l.change(func(c *simazure.Cloud) {
			p := c.Principals()[0]
			p.Assignments = a
			c.SetPrincipal(p)
		})
	}
	set(role("Microsoft.Compute/virtualMachines/read", "Microsoft.Network/virtualNetworks/read"))
	_, err := l.account().Observe(t.Context(), inRegion)
	var e *cloud.Error
	if !errors.As(err, &e) || e.Class != cloud.Auth || !e.Denied || e.Code != "AuthorizationFailed" {
		t.Errorf("without the right to read interfaces: %v", err)
	}
	set(role("*/read"))
	l.observe(l.account())
	set(nil)
}

// TestObserveErrors: everything that can be wrong has its class, and nothing of a region is
// returned.
func TestObserveErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lab, *azure.Config)
		class  cloud.Class
		code   string
	}{
		"wrong secret":       {func(_ *lab, c *azure.Config) { c.Credential.ClientKey = "wrong" }, cloud.Auth, ""},
		"wrong tenant":       {func(_ *lab, c *azure.Config) { c.Credential.TenantID = subscription }, cloud.Auth, ""},
		"other subscription": {func(_ *lab, c *azure.Config) { c.Credential.SubscriptionID = tenantID }, cloud.Auth, "AccessDenied"},
		"throttled": {func(l *lab, _ *azure.Config) {
			l.faults.Add(calls.Fault{Action: graphRead, Code: "RateLimiting", Status: 429, RetryAfter: 90})
		}, cloud.Throttled, "RateLimiting"},
		"server error": {func(l *lab, _ *azure.Config) {
			l.faults.Add(calls.Fault{Action: graphRead, Code: "InternalServerError"})
		}, cloud.Unavailable, "InternalServerError"},
		"second page": {func(l *lab, _ *azure.Config) {
			l.faults.Add(calls.Fault{Action: graphRead, Nth: 2, Code: "InternalServerError"})
		}, cloud.Unavailable, "InternalServerError"},
		"cut off":             {func(l *lab, _ *azure.Config) { l.faults.Add(calls.Fault{Action: graphRead, Nth: 2, Drop: true}) }, cloud.Unavailable, ""},
		"too many objects":    {func(_ *lab, c *azure.Config) { c.Bounds.Objects = 4 }, cloud.Terminal, ""},
		"too many pages":      {func(_ *lab, c *azure.Config) { c.Bounds.Pages = 1 }, cloud.Terminal, ""},
		"too large an answer": {func(_ *lab, c *azure.Config) { c.Bounds.AnswerBytes = 1500 }, cloud.Terminal, ""},
		"expired access token": {func(l *lab, _ *azure.Config) {
			l.faults.Add(calls.Fault{Action: graphRead, Code: "ExpiredAuthenticationToken"})
		}, cloud.Auth, "ExpiredAuthenticationToken"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			cfg := l.config()
			c.change(l, &cfg)
			a, err := azure.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			s, err := a.Observe(t.Context(), inRegion)
			var e *cloud.Error
			if s != nil || !errors.As(err, &e) || e.Class != c.class || e.Code != c.code {
				t.Fatalf("got %v, want class %s and code %q", err, c.class, c.code)
			}
			if name == "throttled" && e.RetryAfter != 90*time.Second {
				t.Errorf("asked to wait %s", e.RetryAfter)
			}
			if strings.Contains(err.Error(), "-----") {
				t.Errorf("the words of the SDK, not of the cloud: %v", err)
			}
		})
	}
	l := newLab(t, nil)
	_, err := l.account().Observe(t.Context(), cloud.Scope{Region: "west' or 1 == 1"})
	if !errors.Is(err, cloud.ErrRegionUnknown) {
		t.Errorf("a region that is a query: %v", err)
	}
}

const graphRead = "Microsoft.ResourceGraph/resources/read"

// TestSetInterfaceGroups: one PUT sets both kinds of groups, nothing else changes, and what was
// there comes back byte for byte.
func TestSetInterfaceGroups(t *testing.T) {
	ctx := t.Context()
	for _, name := range []string{"with groups", "without"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			a := l.account()
			id, nsg, asgs := l.webNIC, l.nsg, []string{l.asg}
			if name == "without" {
				id, nsg, asgs = l.dbNIC, "", nil
			}
			before := l.document(id)
			if err := a.SetInterfaceGroups(ctx, strings.ToLower(id), l.subnetNSG, nil); err != nil {
				t.Fatal(err)
			}
			if l.document(id) == before {
				t.Error("nothing has changed")
			}
			writes := func() int { return l.journal.Counts()["Microsoft.Network/networkInterfaces/write"] }
			n := writes()
			if err := a.SetInterfaceGroups(ctx, id, strings.ToUpper(l.subnetNSG), nil); err != nil {
				t.Fatal(err)
			}
			if writes() != n {
				t.Error("an interface that has its groups was written")
			}
			if err := a.SetInterfaceGroups(ctx, id, nsg, asgs); err != nil {
				t.Fatal(err)
			}
			if after := l.document(id); !strings.EqualFold(after, before) {
				t.Errorf("not as it was:\n%s\n%s", before, after)
			}
		})
	}
}

// TestSetInterfaceGroupsRace: somebody else writes the interface between our reading and our
// writing.
func TestSetInterfaceGroupsRace(t *testing.T) {
	l := newLab(t, nil)
	l.faults.Add(calls.Fault{Action: "Microsoft.Network/networkInterfaces/write", Match: func(calls.Call) bool {
		l.change(func(c *simazure.Cloud) {
			at, _ := document.ParseID(l.dbNIC)
			p := c.Principals()[0]
			if _, err := c.UpdateTags(simazure.Write{By: &p, Now: l.now}, at, simazure.TagsMerge, map[string]string{"theirs": "yes"}); err != nil {
				t.Error(err)
			}
		})
		return true
	}})
	err := l.account().SetInterfaceGroups(t.Context(), l.dbNIC, l.nsg, nil)
	var e *cloud.Error
	if !errors.As(err, &e) || e.Class != cloud.Conflict || e.Code != "PreconditionFailed" {
		t.Fatalf("got %v", err)
	}
	if doc := l.document(l.dbNIC); !strings.Contains(doc, `"theirs":"yes"`) || strings.Contains(doc, "nsg-web") {
		t.Errorf("the other's change is lost: %s", doc)
	}
}

// TestRefusedWrites have their classes.
func TestRefusedWrites(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*lab)
		class  cloud.Class
		code   string
		denied bool
	}{
		"lock": {func(l *lab) {
			l.change(func(c *simazure.Cloud) {
				c.SetLocks([]simazure.Lock{{Scope: "/subscriptions/" + subscription + "/resourceGroups/shop", Name: "l", Level: "ReadOnly"}})
			})
		}, cloud.Auth, "ScopeLocked", true},
		"policy": {func(l *lab) {
			l.change(func(c *simazure.Cloud) {
				c.SetDenials([]simazure.Denial{{Assignment: "p", Scope: "/subscriptions/" + subscription, Action: "Microsoft.Network/*/write"}})
			})
		}, cloud.Auth, "RequestDisallowedByPolicy", true},
		"busy": {func(l *lab) {
			l.faults.Add(calls.Fault{Action: "Microsoft.Network/networkInterfaces/write", Code: "AnotherOperationInProgress"})
		}, cloud.Conflict, "AnotherOperationInProgress", false},
		"fails late": {func(l *lab) {
			l.faults.Add(calls.Fault{Action: "Microsoft.Network/networkInterfaces/write", Code: "InternalServerError", Late: true})
		}, cloud.Unavailable, "InternalServerError", false},
		"lost answer": {func(l *lab) {
			l.faults.Add(calls.Fault{Action: "Microsoft.Network/networkInterfaces/write", LoseAnswer: true})
		}, cloud.Unavailable, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			c.before(l)
			err := l.account().SetInterfaceGroups(t.Context(), l.dbNIC, l.nsg, nil)
			var e *cloud.Error
			if !errors.As(err, &e) || e.Class != c.class || e.Code != c.code || e.Denied != c.denied {
				t.Errorf("got %v (%+v)", err, e)
			}
		})
	}
}

// TestTags: ours are written under names that Azure takes, others stay, and they come back under
// the names of the port.
func TestTags(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, nil)
	a := l.account()
	tags := map[string]string{cloud.TagClaim: "cluster", cloud.TagFormer: "a b", cloud.TagRevision + ".aB-Zz": "x"}
	if err := a.Tag(ctx, []string{l.vnet, l.dbNIC}, tags); err != nil {
		t.Fatal(err)
	}
	find := func(s *cloud.Snapshot) map[string]string {
		return s.Interfaces[slices.IndexFunc(s.Interfaces, func(i cloud.Interface) bool { return i.ID == strings.ToLower(l.dbNIC) })].Tags
	}
	if got := find(l.observe(a)); got[cloud.TagClaim] != "cluster" || got[cloud.TagFormer] != "a b" || got[cloud.TagRevision+".aB-Zz"] != "x" || got["owner"] != "somebody" {
		t.Errorf("tags %v", got)
	}
	if err := a.Untag(ctx, []string{l.dbNIC}, []string{cloud.TagClaim, cloud.TagFormer, cloud.TagRevision + ".aB-Zz"}); err != nil {
		t.Fatal(err)
	}
	if got := find(l.observe(a)); len(got) != 1 {
		t.Errorf("tags %v", got)
	}
	if err := a.Tag(ctx, []string{"/subscriptions/" + tenantID + "/resourceGroups/x"}, tags); cloud.ClassOf(err) != cloud.Terminal {
		t.Errorf("a foreign subscription: %v", err)
	}
}

// TestIdentity: which accounts may use the identity of the process, and where secrets go.
func TestIdentity(t *testing.T) {
	l := newLab(t, nil)
	none := func(c *azure.Config) { c.Credential.ClientKey = "" }
	for name, c := range map[string]struct {
		change func(*azure.Config)
		want   string
	}{
		"no grant":          {func(c *azure.Config) { none(c); c.Cloud = nil }, "--ambient-identity-namespaces shop"},
		"custom cloud":      {func(c *azure.Config) { none(c); c.Ambient = azure.LoadAmbient(nil) }, "azureConfig.cloud"},
		"host not allowed":  {func(c *azure.Config) { c.Allowed = &egress.Rules{} }, "--allowed-endpoints"},
		"no TLS":            {func(c *azure.Config) { c.Cloud.Authority = "http://127.0.0.1" }, "https URL"},
		"no certificate":    {func(c *azure.Config) { c.Cloud.CABundle = "x" }, "caBundle"},
		"not a certificate": {func(c *azure.Config) { c.Credential.ClientCertificate = "x" }, "clientCertificate"},
	} {
		cfg := l.config()
		c.change(&cfg)
		if _, err := azure.New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if n := l.journal.Total(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	local := egress.Local()
	l.observe(l.account(func(c *azure.Config) { c.Allowed = &local }))
	// Without its certificate the simulator is not trusted.
	_, err := l.account(func(c *azure.Config) { c.Cloud.CABundle = "" }).Observe(context.Background(), inRegion)
	if cloud.ClassOf(err) != cloud.Unavailable {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// TestParseCredential: Nephe's Secrets are read, and what is wrong with others is said without
// their values.
func TestParseCredential(t *testing.T) {
	ids := `"subscriptionId": "` + subscription + `", "tenantId": "` + tenantID + `", "clientId": "` + tenantID + `"`
	for text, want := range map[string]string{
		`{` + ids + `, "clientKey": "k"}`:            "",
		`{` + ids + `, "sessionToken": "t"}`:         "",
		`{` + ids + `}`:                              "", // the identity of the process
		`{"subscriptionId": "` + subscription + `"}`: "",
		``:                 "empty",
		`[`:                "not JSON",
		`{"clientKey": 1}`: "expected a string",
		`{"tenantId": "x", "clientId": "y", "clientKey": "k"}`:               "subscriptionId",
		`{"subscriptionId": "hunter2"}`:                                      "not a GUID",
		`{"subscriptionId": "` + subscription + `", "clientKey": "hunter2"}`: "tenantId",
		`{` + ids + `, "clientKey": "hun ter2"}`:                             "white space",
	} {
		_, err := azure.ParseCredential("ns/s", "k", []byte(text))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hun")) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestAdmit: every attempt of every call to Resource Manager asks to be let through, as what it is,
// and a caller that gives up while it waits has called nothing. A 429 is reported with its wait; a
// busy object is no 429.
func TestAdmit(t *testing.T) {
	l := newLab(t, nil)
	asked := map[string]int{}
	var ended []string
	gone := errors.New("gone")
	refuse := false
	var mu sync.Mutex
	a := l.account(func(c *azure.Config) {
		c.Admit = func(_ context.Context, call azure.Call) (func(cloud.Class, time.Duration), error) {
			mu.Lock()
			defer mu.Unlock()
			if refuse {
				return nil, gone
			}
			if call.Subscription != subscription || call.Principal != tenantID+"/"+strings.ToLower(l.client) {
				t.Errorf("%+v", call)
			}
			asked[call.Action]++
			return func(class cloud.Class, wait time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, string(class)+" "+wait.String())
			}, nil
		}
	})
	l.observe(a)
	create := cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: strings.ToLower(l.vnet), Name: "nephele-x", Tags: map[string]string{cloud.TagCluster: "c"}}}
	id, err := a.Apply(t.Context(), inRegion, create)
	if err != nil {
		t.Fatal(err)
	}
	tag := cloud.Op{Kind: cloud.OpTag, Target: id, Tags: map[string]string{cloud.TagName: "x"}}
	for code, want := range map[string]string{"TooManyRequests": "Throttled 17s", "RetryableError": "Conflict 0s"} {
		l.faults.Add(calls.Fault{Action: "Microsoft.Resources/tags/write", Code: code, Status: 429, RetryAfter: 17, Times: 1})
		if _, err := a.Apply(t.Context(), inRegion, tag); cloud.ClassOf(err) != cloud.Throttled {
			t.Errorf("%s: %v", code, err)
		}
		if got := ended[len(ended)-1]; got != want {
			t.Errorf("%s was told as %s, want %s", code, got, want)
		}
		l.faults.Clear()
	}
	for name, n := range l.journal.Counts() {
		if strings.HasPrefix(name, "Microsoft.") && !strings.Contains(name, "/operations/") && asked[name] != n {
			t.Errorf("%d of %s asked, the cloud has seen %d", asked[name], name, n)
		}
	}
	refuse = true
	before := l.journal.Total()
	if _, err := a.Apply(t.Context(), inRegion, tag); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if n := l.journal.Total() - before; n != 0 {
		t.Errorf("%d calls by one that was not let through", n)
	}
}

// TestBuckets: writes and reads to the network provider take from its buckets, too, and principals
// share those, but not their own.
func TestBuckets(t *testing.T) {
	call := azure.Call{Subscription: "s", Principal: "one", Action: "Microsoft.Network/networkInterfaces/write"}
	other := call
	other.Principal = "two"
	a, b := call.Buckets(""), other.Buckets("")
	if len(a) != 2 || len(b) != 2 || a[0] != b[0] || a[1] == b[1] {
		t.Errorf("%+v and %+v", a, b)
	}
	for action, want := range map[string]int{
		"Microsoft.Network/networkInterfaces/read": 2, "Microsoft.Network/networkSecurityGroups/delete": 2, "Microsoft.Resources/tags/write": 1,
		"Microsoft.ResourceGraph/resources/read": 1,
	} {
		call.Action = action
		got := call.Buckets("https://elsewhere")
		if len(got) != want {
			t.Errorf("%s takes from %+v", action, got)
		}
		for _, k := range got {
			if r := azure.Documented(k.Action); r.Burst <= 0 || r.PerSecond <= 0 || k.Endpoint == "" {
				t.Errorf("%s: %+v has the rate %+v", action, k, r)
			}
		}
	}
}
