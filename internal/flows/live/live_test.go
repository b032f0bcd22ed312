package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

var begun = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// concernsAll knows the policies of report.
func concernsAll(uid string) (kind, namespace, name string, known bool) {
	if uid == "u2" {
		return "AntreaClusterNetworkPolicy", "", "baseline", true
	}
	return "AntreaNetworkPolicy", "shop", "db", true
}

var all = Sight{All: true}

// machines are owners with an address each: two Pods on one Node, a host, a Service and a Node.
func machines(o *Owners) map[string]netip.Addr {
	out := map[string]netip.Addr{}
	for i, x := range []Owner{
		{"Pod", "shop", "web", "worker-1"}, {"Pod", "shop", "db", "worker-2"}, {"Pod", "bank", "vault", "worker-1"}, {"ExternalEntity", "vms", "host-1", "vms/host"},
		{"Service", "shop", "db", ""}, {"Node", "", "worker-1", "worker-1"},
	} {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		o.Set(x, []netip.Addr{a}, begun)
		out[strings.TrimPrefix(x.Namespace+"/"+x.Name, "/")+map[bool]string{true: " svc"}[x.Kind == "Service"]] = a
	}
	return out
}

func report(at time.Time, traffic ...analysis.ReportedTraffic) *analysis.TrafficReportSpec {
	return &analysis.TrafficReportSpec{
		Since: metav1.NewMicroTime(at.Add(-2 * time.Second)), Until: metav1.NewMicroTime(at), Sent: metav1.NewMicroTime(at),
		Causes: []analysis.TrafficCause{
			{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: "shop", Name: "db", UID: "u1", Direction: "In", Rule: "web"}, {Cause: "Native"},
			{Cause: "Policy", Type: "AntreaClusterNetworkPolicy", Name: "baseline", UID: "u2", Direction: "Out", Index: 3},
		},
		Traffic: traffic,
	}
}

func allowed(client, server netip.Addr, port uint16, by int32) analysis.ReportedTraffic {
	return analysis.ReportedTraffic{Direction: "In", Client: client.String(), Server: server.String(), Protocol: 6, Port: port, Verdict: "Allow", By: by, Connections: 1}
}

// TestSums feeds random reports of several enforcers, late ones among them, and compares every sum
// with that of the list of all entries.
func TestSums(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	var addresses []netip.Addr
	for _, a := range at {
		addresses = append(addresses, a)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	type entry struct {
		enforcer string
		analysis.ReportedTraffic
		cause, before analysis.TrafficCause
		at            time.Time
	}
	var naive []entry
	now := begun
	for range 200 {
		now = now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
		enforcer := []string{"worker-1", "worker-2", "vms/host"}[random.IntN(3)]
		r := report(now)
		for range random.IntN(5) {
			x := allowed(addresses[random.IntN(len(addresses))], addresses[random.IntN(len(addresses))], uint16(80+random.IntN(2)), int32(random.IntN(3)))
			x.Connections, x.Bytes = int64(random.IntN(3)), int64(random.IntN(1000))
			if random.IntN(3) == 0 {
				x.Verdict = "Drop"
			}
			e := entry{enforcer, x, r.Causes[x.By], analysis.TrafficCause{}, now}
			if before := int32(random.IntN(3)); random.IntN(3) == 0 {
				x.Before, e.before = &before, r.Causes[before]
			}
			if random.IntN(9) == 0 {
				x.Differs = "MayBeOld"
			}
			e.ReportedTraffic = x
			r.Traffic = append(r.Traffic, x)
			naive = append(naive, e)
		}
		if refused, err := s.Add(enforcer, r, concernsAll, now); refused != 0 || err != nil {
			t.Fatal(refused, err)
		}
	}
	sums := func(key func(entry) string) map[string][2]int64 {
		out := map[string][2]int64{}
		for _, e := range naive {
			n := out[key(e)]
			out[key(e)] = [2]int64{n[0] + e.Connections, n[1] + e.Bytes}
		}
		return out
	}
	want := sums(func(e entry) string {
		return fmt.Sprint(e.enforcer, e.Client, e.Server, e.Port, e.Verdict, e.Differs, e.cause, e.before)
	})
	got := map[string][2]int64{}
	answer, err := s.Query(&analysis.FlowQuerySpec{Limit: maxFlows}, all, nil, now)
	if err != nil || answer.More > 0 {
		t.Fatal(err, answer.More)
	}
	for _, x := range answer.Flows {
		before := analysis.TrafficCause{}
		if x.Before != nil {
			before = *x.Before
		}
		k := fmt.Sprint(x.Enforcer, x.From.Address, x.To.Address, x.Port, x.Verdict, x.Differs, x.By, before)
		if _, twice := got[k]; twice {
			t.Errorf("%s is told twice", k)
		}
		got[k] = [2]int64{x.Connections, x.Bytes}
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%s: %v, want %v", k, got[k], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d flows, want %d", len(got), len(want))
	}
	for _, since := range []time.Time{begun, begun.Add(3 * time.Minute)} {
		decided := map[RuleKey]Hit{}
		for _, e := range naive {
			for _, c := range []analysis.TrafficCause{e.cause, e.before} {
				k := RuleKey{c.Type, c.Namespace, c.Name, c.Direction, c.Rule, c.Index}
				if c.Cause == "Policy" && e.Differs == "" && e.Connections > 0 && !e.at.Before(since.Truncate(Window)) {
					decided[k] = Hit{decided[k].Connections + e.Connections, e.at}
				}
			}
		}
		hits, err := s.Hits(since.Truncate(Window), all, nil, now)
		if err != nil || !maps.Equal(hits.Rules, decided) || hits.Enforcers != 3 || hits.More != 0 {
			t.Errorf("since %s: %v %v, want %v", since, hits, err, decided)
		}
	}
	// A follower gets the same, in parts.
	followed := map[string]int64{}
	f := New(owners, 0, begun)
	next, told := f.mark(0), map[string]int64{}
	for i, e := range naive {
		if _, err := f.Add(e.enforcer, report(now, e.ReportedTraffic), concernsAll, now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		if i%7 > 0 && i < len(naive)-1 {
			continue
		}
		a, err := f.Query(&analysis.FlowQuerySpec{After: next, Limit: maxFlows}, all, nil, now.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		next = a.Next
		for _, x := range a.Flows {
			k := fmt.Sprint(x.Enforcer, x.From, x.To, x.Port, x.Verdict, x.By, x.Differs)
			if x.Before != nil {
				k += fmt.Sprint(*x.Before)
			}
			w := k + x.First.String()
			followed[k] += x.Connections - told[w]
			told[w] = x.Connections
		}
	}
	var sum, wantSum int64
	for _, n := range followed {
		sum += n
	}
	for _, e := range naive {
		wantSum += e.Connections
	}
	if sum != wantSum {
		t.Errorf("followed %d connections, want %d", sum, wantSum)
	}
}

// TestOwnersAreThoseOfThen gives an address to one Pod after another, and tells of connections of
// both, the first of them late.
func TestOwnersAreThoseOfThen(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	a := netip.MustParseAddr("10.0.9.9")
	first, second := Owner{"Pod", "shop", "first", "worker-1"}, Owner{"Pod", "shop", "second", "worker-1"}
	owners.Set(first, []netip.Addr{a}, begun)
	owners.Set(first, nil, begun.Add(5*time.Minute))
	owners.Set(second, []netip.Addr{a}, begun.Add(6*time.Minute))
	now := begun.Add(8 * time.Minute)
	late := report(now, allowed(a, at["shop/db"], 5432, 0))
	late.Until, late.Since = metav1.NewMicroTime(now.Add(-4*time.Minute)), metav1.NewMicroTime(now.Add(-5*time.Minute))
	for _, r := range []*analysis.TrafficReportSpec{late, report(now, allowed(a, at["shop/db"], 5433, 0))} {
		if _, err := s.Add("worker-1", r, concernsAll, now); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := s.Query(&analysis.FlowQuerySpec{}, all, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int32]string{}
	for _, x := range answer.Flows {
		got[x.Port] = x.From.Name
	}
	if got[5432] != "first" || got[5433] != "second" {
		t.Errorf("%v", got)
	}
	if _, known := owners.At(a, begun.Add(320*time.Second), ""); known {
		t.Error("somebody has the address while nobody had it")
	}
	owners.Set(Owner{"Node", "", "worker-9", "worker-9"}, []netip.Addr{a}, begun.Add(7*time.Minute))
	if o, known := owners.At(a, now, ""); !known || o != second {
		t.Errorf("a Pod with the address of a gateway: %+v", o)
	}
	owners.Set(Owner{"Pod", "elsewhere", "twin", "worker-8"}, []netip.Addr{a}, begun.Add(7*time.Minute))
	if o, known := owners.At(a, now, ""); known {
		t.Errorf("of two with one address: %+v", o)
	}
	if o, known := owners.At(a, now, "worker-1"); !known || o != second {
		t.Errorf("of two, to the enforcer of one: %+v", o)
	}
	for _, x := range []Owner{{"Node", "", "worker-9", "worker-9"}, {"Pod", "elsewhere", "twin", "worker-8"}} {
		owners.Set(x, nil, begun.Add(8*time.Minute))
	}
	owners.Set(first, nil, begun.Add(3*time.Hour)) // anything that forgets
	if len(owners.departed) != 0 || len(owners.tenures[a]) != 1 {
		t.Errorf("%d departed are remembered after three hours, and %d tenures", len(owners.departed), len(owners.tenures[a]))
	}
}

// TestEndsBelongToBeginnings counts what a connection carried for the policy that let it begin,
// also when that is another one by then.
func TestEndsBelongToBeginnings(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	end := analysis.ReportedTraffic{Direction: "In", Client: at["shop/web"].String(), Server: at["shop/db"].String(), Protocol: 6, Port: 5432, By: -1, Ended: 1, Bytes: 1000}
	for i, r := range []*analysis.TrafficReportSpec{
		report(begun, end), report(begun, allowed(at["shop/web"], at["shop/db"], 5432, 0)), report(begun.Add(time.Minute), end),
	} {
		if _, err := s.Add("worker-2", r, concernsAll, begun.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	answer, _ := s.Query(&analysis.FlowQuerySpec{}, all, nil, begun.Add(3*time.Minute))
	got := map[string]int64{}
	for _, x := range answer.Flows {
		got[x.Verdict+" "+x.By.Name] = x.Bytes
	}
	if len(got) != 2 || got["Allow db"] != 1000 || got["Unknown "] != 1000 {
		t.Errorf("%v", got)
	}
}

// TestTenants asks as somebody who may read shop alone.
func TestTenants(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	outside := netip.MustParseAddr("198.51.100.7")
	for enforcer, r := range map[string]*analysis.TrafficReportSpec{
		"worker-1": report(begun, allowed(at["bank/vault"], at["shop/db"], 5432, 2), allowed(at["bank/vault"], outside, 443, 1), allowed(at["worker-1"], outside, 53, 1)),
		"vms/host": report(begun, allowed(at["vms/host-1"], at["shop/web"], 80, 1), allowed(at["vms/host-1"], at["bank/vault"], 81, 1)),
	} {
		if _, err := s.Add(enforcer, r, concernsAll, begun); err != nil {
			t.Fatal(err)
		}
	}
	shop := Sight{Namespace: func(n string) bool { return n == "shop" }}
	answer, err := s.Query(&analysis.FlowQuerySpec{}, shop, nil, begun)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(answer)
	for _, secret := range []string{"vault", "bank", "host-1", "vms", "baseline", "u2"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%q is told to somebody who may read shop alone:\n%s", secret, b)
		}
	}
	if len(answer.Flows) != 2 || !answer.Limited || answer.Losses != nil || answer.Enforcers != 2 {
		t.Errorf("%d flows, limited %t, want 2 and true", len(answer.Flows), answer.Limited)
	}
	for _, q := range []analysis.FlowQuerySpec{{From: "vault"}, {From: "bank/"}, {Policy: "baseline"}, {Namespace: "bank"}, {Enforcer: "vms/host"}} {
		answer, err := s.Query(&q, shop, nil, begun)
		if err != nil || len(answer.Flows) > 0 {
			t.Errorf("%+v finds what is hidden: %v %v", q, answer.Flows, err)
		}
	}
	if answer, _ := s.Query(&analysis.FlowQuerySpec{}, all, nil, begun); len(answer.Flows) != 5 {
		t.Errorf("a user with all rights sees %d flows, want 5", len(answer.Flows))
	}
}

// TestTwoWorldsFlow: two stores that differ only in what somebody may not see answer him alike,
// whatever the hidden ends are, what others report, and how much. The mark of what he was told
// changes only with what he is told, and counts nothing.
func TestTwoWorldsFlow(t *testing.T) {
	shop := Sight{Namespace: func(n string) bool { return n == "shop" }}
	var stores [2]*Store
	var places [2]map[string]netip.Addr
	outside := netip.MustParseAddr("198.51.100.7")
	add := func(s *Store, enforcer string, r *analysis.TrafficReportSpec) {
		t.Helper()
		if _, err := s.Add(enforcer, r, concernsAll, begun); err != nil {
			t.Fatal(err)
		}
	}
	for i := range stores {
		owners := NewOwners()
		places[i] = machines(owners)
		if i == 1 { // there is somebody else at the hidden end, elsewhere
			owners.Set(Owner{"Pod", "bank", "vault", "worker-1"}, nil, begun)
			owners.Set(Owner{"ExternalEntity", "vms", "other", "cloud/vms/prod"}, []netip.Addr{places[i]["bank/vault"]}, begun)
		}
		stores[i] = New(owners, 0, begun)
	}
	seen := func(s *Store, at map[string]netip.Addr, port uint16) {
		add(s, "worker-2", report(begun, allowed(at["bank/vault"], at["shop/db"], port, 2), allowed(outside, at["shop/db"], port, 1)))
		out := allowed(at["shop/web"], at["bank/vault"], port, 0)
		out.Direction = "Out"
		add(s, "worker-1", report(begun, out))
	}
	for i, s := range stores {
		if i == 1 {
			for n := range 50 {
				add(s, fmt.Sprint("worker-", 10+n), report(begun, allowed(places[i]["bank/vault"], places[i]["vms/host-1"], uint16(n+1), 1)))
			}
		}
		seen(s, places[i], 5432)
	}
	ask := func(s *Store, q analysis.FlowQuerySpec) (*analysis.FlowQueryStatus, string) {
		t.Helper()
		a, err := s.Query(&q, shop, nil, begun)
		if err != nil {
			t.Fatal(err)
		}
		told := *a
		told.Next = ""
		text, _ := json.Marshal(told)
		return a, string(text)
	}
	for _, q := range []analysis.FlowQuerySpec{{}, {From: "vault"}, {To: "10.0.0.0/8"}, {Namespace: "bank"}, {Enforcer: "worker-10"}, {Policy: "baseline"}, {Differs: true}, {Verdict: "Denied"}, {Limit: 1}} {
		_, one := ask(stores[0], q)
		_, two := ask(stores[1], q)
		if one != two {
			t.Errorf("%+v:\n%s\n%s", q, one, two)
		}
	}
	s, at := stores[1], places[1]
	first, _ := ask(s, analysis.FlowQuerySpec{})
	if len(first.Flows) != 3 || first.Enforcers != 2 {
		t.Errorf("%d flows of %d enforcers", len(first.Flows), first.Enforcers)
	}
	add(s, "worker-10", report(begun, allowed(at["bank/vault"], at["vms/host-1"], 9, 1)))
	if again, _ := ask(s, analysis.FlowQuerySpec{After: first.Next}); again.Next != first.Next || len(again.Flows) > 0 {
		t.Errorf("what others report shows: %s, was %s, %v", again.Next, first.Next, again.Flows)
	}
	seen(s, at, 5433)
	if next, _ := ask(s, analysis.FlowQuerySpec{After: first.Next}); next.Next == first.Next || len(next.Flows) != 3 {
		t.Errorf("after %s: %s, %v", first.Next, next.Next, next.Flows)
	}
	for _, made := range []string{"1", "40", strings.Repeat("0", 32), strings.Repeat("f", 32)} {
		if a, _ := ask(s, analysis.FlowQuerySpec{After: made}); len(a.Flows) != 6 {
			t.Errorf("a mark that somebody has made up, %s, finds %d flows, want the first ones", made, len(a.Flows))
		}
	}
	since := begun.Add(-time.Minute)
	hits, err := stores[1].Hits(since, shop, nil, begun)
	if err != nil || hits.Enforcers != 2 {
		t.Errorf("%+v, %v", hits, err)
	}
}

// TestSinceTellsNothing: since when flows are known hangs on the flows that the caller may see, not
// on others that memory had to forget, or that have been on disk for longer.
func TestSinceTellsNothing(t *testing.T) {
	shop := Sight{Namespace: func(n string) bool { return n == "shop" }}
	now := begun.Add(10 * time.Minute)
	since := metav1.NewMicroTime(begun.Add(-2 * time.Hour))
	told := func(hidden, own bool) string {
		owners := NewOwners()
		at := machines(owners)
		s, past := New(owners, 60*rowBytes, begun), &disk{}
		add := func(enforcer string, when time.Time, r *analysis.TrafficReportSpec) {
			t.Helper()
			if _, err := s.Add(enforcer, r, concernsAll, when); err != nil {
				t.Fatal(err)
			}
		}
		if own {
			add("worker-1", begun, report(begun, allowed(at["shop/web"], at["shop/db"], 5432, 0)))
		}
		if hidden {
			for n := range 100 {
				when := begun.Add(time.Duration(n) * 5 * time.Second)
				add(fmt.Sprint("other-", n%20), when, report(when, allowed(at["bank/vault"], at["vms/host-1"], uint16(n+1), 1)))
			}
			past.entries = []*Entry{{Enforcer: "worker-9", ClientOwner: Owner{Namespace: "bank"}, Start: since.Time.Add(time.Minute), First: since.Time.Add(time.Minute)}}
		}
		if !own {
			add("worker-1", now, report(now, allowed(at["shop/web"], at["shop/db"], 5432, 0)))
		}
		if losses := s.Stats().Losses.Forgotten; (losses > 0) != hidden {
			t.Fatalf("%d flows were forgotten", losses)
		}
		var out []any
		for _, from := range []Past{nil, past} {
			a, err := s.Query(&analysis.FlowQuerySpec{Since: &since}, shop, from, now)
			if err != nil {
				t.Fatal(err)
			}
			a.Next = ""
			hits, err := s.Hits(since.Time, shop, from, now)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, a, hits.Since, hits.Enforcers)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one, two := told(false, false), told(true, false)
	if one != two {
		t.Errorf("what others do shows:\n%s\n%s", one, two)
	}
	if own := told(true, true); own == one || !strings.Contains(own, `"since":"2030-01-02T03:04:15.000000Z"`) {
		t.Errorf("it is not told that flows of his were forgotten: %s", own)
	}
}

// TestEnforcersSpeakForThemselves lets a host tell of two others, and of a policy that is none of
// its own.
func TestEnforcersSpeakForThemselves(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	r := report(begun, allowed(at["shop/web"], at["shop/db"], 5432, 0), allowed(at["vms/host-1"], at["shop/db"], 5432, 0))
	if _, err := s.Add("vms/host", r, func(uid string) (string, string, string, bool) { return "", "", "", uid != "u1" }, begun); err != nil {
		t.Fatal(err)
	}
	answer, _ := s.Query(&analysis.FlowQuerySpec{}, all, nil, begun)
	for _, x := range answer.Flows {
		if x.By.Cause != "Unknown" || x.By.Name != "" {
			t.Errorf("a policy that the host does not have decides: %+v", x.By)
		}
		if named := x.From.Name != "" || x.To.Name != ""; named != (x.From.Address == at["vms/host-1"].String()) {
			t.Errorf("%+v to %+v", x.From, x.To)
		}
	}
	forged := report(begun, allowed(at["vms/host-1"], at["shop/db"], 5433, 0))
	forged.Causes[0].Namespace, forged.Causes[0].Name = "bank", "secret"
	if _, err := s.Add("vms/host", forged, concernsAll, begun); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Query(&analysis.FlowQuerySpec{Port: 5433}, all, nil, begun); len(got.Flows) != 1 || got.Flows[0].By.Namespace != "shop" || got.Flows[0].By.Name != "db" {
		t.Errorf("a host says what its policy is called: %+v", got.Flows)
	}
	if got, _ := s.Query(&analysis.FlowQuerySpec{Port: 5432}, Sight{Namespace: func(n string) bool { return n == "shop" }}, nil, begun); len(got.Flows) != 1 {
		t.Errorf("shop sees %d flows, want the one that a host has of its own", len(got.Flows))
	}
}

// TestMalformed gives reports that no enforcer of ours makes.
func TestMalformed(t *testing.T) {
	good := allowed(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), 80, 0)
	for what, change := range map[string]func(*analysis.ReportedTraffic){
		"no address":          func(x *analysis.ReportedTraffic) { x.Client = "web" },
		"a zone":              func(x *analysis.ReportedTraffic) { x.Server = "fe80::1%eth0" },
		"a Service":           func(x *analysis.ReportedTraffic) { x.Service = "10.0.0.1" },
		"a verdict":           func(x *analysis.ReportedTraffic) { x.Verdict = "Perhaps" },
		"a direction":         func(x *analysis.ReportedTraffic) { x.Direction = "" },
		"a difference":        func(x *analysis.ReportedTraffic) { x.Differs = "Cut" },
		"a cause beyond":      func(x *analysis.ReportedTraffic) { x.By = 3 },
		"a cause before":      func(x *analysis.ReportedTraffic) { x.By = -2 },
		"no cause":            func(x *analysis.ReportedTraffic) { x.By = -1 },
		"a negative number":   func(x *analysis.ReportedTraffic) { x.Bytes = -1 },
		"an enormous number":  func(x *analysis.ReportedTraffic) { x.Packets = 1 << 60 },
		"ended and a verdict": func(x *analysis.ReportedTraffic) { x.Verdict, x.By = "", 99 },
	} {
		owners := NewOwners()
		s := New(owners, 0, begun)
		bad := good
		change(&bad)
		refused, err := s.Add("worker-1", report(begun, bad, good), concernsAll, begun)
		if refused != 1 || err != nil || s.Stats().Flows != 1 || s.Stats().Losses.Refused != 1 {
			t.Errorf("%s: %d refused, %v, %d flows", what, refused, err, s.Stats().Flows)
		}
	}
	for field, change := range map[string]func(*analysis.TrafficReportSpec){
		"spec.traffic":         func(r *analysis.TrafficReportSpec) { r.Traffic = make([]analysis.ReportedTraffic, 2001) },
		"spec.causes":          func(r *analysis.TrafficReportSpec) { r.Causes = make([]analysis.TrafficCause, 2001) },
		"spec.causes[1].cause": func(r *analysis.TrafficReportSpec) { r.Causes[1].Cause = "Whim" },
		"spec.causes[0].name":  func(r *analysis.TrafficReportSpec) { r.Causes[0].Name = strings.Repeat("x", 257) },
		"spec.causes[2].uid":   func(r *analysis.TrafficReportSpec) { r.Causes[2].UID = "" },
		"spec.causes[1].uid":   func(r *analysis.TrafficReportSpec) { r.Causes[1].Namespace = "bank" },
		"spec.until":           func(r *analysis.TrafficReportSpec) { r.Until.Time = r.Since.Add(-time.Second) },
		"spec.losses":          func(r *analysis.TrafficReportSpec) { r.Losses.Overruns = -1 },
	} {
		s := New(NewOwners(), 0, begun)
		r := report(begun, good)
		change(r)
		_, err := s.Add("worker-1", r, concernsAll, begun)
		var p *Problem
		if !errors.As(err, &p) || p.Field != field || s.Stats().Flows != 0 {
			t.Errorf("%s: %v", field, err)
		}
	}
	s := New(NewOwners(), 0, begun)
	for field, q := range map[string]analysis.FlowQuerySpec{
		"spec.port": {Port: 70000}, "spec.verdict": {Verdict: "Drop"}, "spec.limit": {Limit: 5001}, "spec.after": {After: "yesterday"}, "spec.from": {From: strings.Repeat("x", 1025)},
	} {
		_, err := s.Query(&q, all, nil, begun)
		var p *Problem
		if !errors.As(err, &p) || p.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestClocks takes reports of enforcers whose clocks are hours off, and one that waited.
func TestClocks(t *testing.T) {
	now := begun.Add(30 * time.Minute)
	for what, c := range map[string]struct {
		skew, waited, want time.Duration
	}{
		"ahead": {2 * time.Hour, 0, 0}, "behind": {-2 * time.Hour, 0, 0}, "waited": {time.Hour, 4 * time.Minute, 4 * time.Minute}, "waited for long": {0, time.Hour, maxDelay},
	} {
		owners := NewOwners()
		at := machines(owners)
		s := New(owners, 0, begun)
		r := report(now.Add(c.skew-c.waited), allowed(at["shop/web"], at["shop/db"], 80, 1))
		r.Sent = metav1.NewMicroTime(now.Add(c.skew))
		if _, err := s.Add("worker-1", r, concernsAll, now); err != nil {
			t.Fatal(err)
		}
		answer, _ := s.Query(&analysis.FlowQuerySpec{}, all, nil, now)
		if len(answer.Flows) != 1 || !answer.Flows[0].Last.Equal(&metav1.MicroTime{Time: now.Add(-c.want)}) {
			t.Errorf("%s: %+v", what, answer.Flows)
		}
	}
}

// TestFloods bounds memory: the oldest goes, is counted, and no enforcer takes the place of others.
func TestFloods(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	const bytes = 2 << 20
	s := New(owners, bytes, begun)
	now := begun
	if _, err := s.Add("worker-2", report(now, allowed(at["shop/web"], at["shop/db"], 5432, 0)), concernsAll, now); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 30 {
		now = now.Add(5 * time.Second)
		r := report(now)
		for range 2000 {
			n++
			r.Traffic = append(r.Traffic, allowed(netip.AddrFrom4([4]byte{172, byte(n >> 16), byte(n >> 8), byte(n)}), at["vms/host-1"], 80, 1))
		}
		if _, err := s.Add("vms/host", r, concernsAll, now); err != nil {
			t.Fatal(err)
		}
		if size := s.size(); size > bytes {
			t.Fatalf("%d bytes of %d", size, bytes)
		}
	}
	stats := s.Stats()
	if stats.Losses.Forgotten == 0 || int64(stats.Flows)+stats.Losses.Forgotten != int64(n+1) {
		t.Errorf("%d flows and %d forgotten of %d", stats.Flows, stats.Losses.Forgotten, n+1)
	}
	if answer, _ := s.Query(&analysis.FlowQuerySpec{Port: 5432}, all, nil, now); len(answer.Flows) != 1 {
		t.Error("a host that floods has pushed out what others told")
	}
	// An hour later nothing is left.
	now = now.Add(2 * time.Hour)
	answer, _ := s.Query(&analysis.FlowQuerySpec{}, all, nil, now)
	if len(answer.Flows) != 0 || s.rows != 0 || s.texts != 0 || len(s.held) != 0 || len(s.heard) != 0 {
		t.Errorf("%d flows, %d rows, %d texts, %v", len(answer.Flows), s.rows, s.texts, s.held)
	}
}

// TestMemoryOfRows measures what an entry takes.
func TestMemoryOfRows(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 1<<30, begun)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	n := 0
	for range 50 {
		r := report(begun)
		for range 2000 {
			n++
			r.Traffic = append(r.Traffic, allowed(netip.AddrFrom4([4]byte{172, byte(n >> 16), byte(n >> 8), byte(n)}), at["vms/host-1"], 80, 1))
		}
		if _, err := s.Add("vms/host", r, concernsAll, begun); err != nil {
			t.Fatal(err)
		}
	}
	per := int(heap()-before) / n
	t.Logf("%d bytes an entry", per)
	if per > rowBytes {
		t.Errorf("an entry takes %d bytes, and is counted as %d", per, rowBytes)
	}
	runtime.KeepAlive(s)
}

func BenchmarkAdd(b *testing.B) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	r := report(begun)
	for i := range 2000 {
		r.Traffic = append(r.Traffic, allowed(at["shop/web"], at["shop/db"], uint16(i), 0))
	}
	for i := 0; b.Loop(); i++ {
		if _, err := s.Add("worker-2", r, concernsAll, begun.Add(time.Duration(i)*time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2000), "ns/entry")
}

// disk is a Past that a Store has written.
type disk struct {
	entries []*Entry
	asked   []time.Time
}

func (d *disk) Scan(since, until time.Time, each func(*Entry) bool) (time.Time, error) {
	d.asked = append(d.asked, since, until)
	for _, e := range d.entries {
		if !e.Start.Before(since) && e.Start.Before(until) && !each(e) {
			break
		}
	}
	return begun, nil
}

func (d *disk) ScanDecided(since, until time.Time, each func(*Entry) bool) (time.Time, error) {
	return d.Scan(since, until, each)
}

// TestMemoryAndDiskTogether asks over hours, of which memory holds the last one: nothing is told
// twice and nothing left out, also after a restart.
func TestMemoryAndDiskTogether(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s, kept := New(owners, 0, begun), &disk{}
	now := begun
	written := begun.Truncate(time.Minute)
	young := New(owners, 0, begun)
	if _, err := young.Add("worker-2", report(begun.Add(time.Second), allowed(at["shop/web"], at["shop/db"], 5432, 0)), concernsAll, begun.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	earlier := metav1.NewMicroTime(begun.Add(-time.Hour))
	if answer, err := young.Query(&analysis.FlowQuerySpec{Since: &earlier}, all, &disk{}, begun.Add(2*time.Second)); err != nil || len(answer.Flows) != 1 {
		t.Errorf("what came in the first minute is not told: %+v %v", answer, err)
	}
	want := 0
	for i := range 4 * 60 * 3 { // three hours, by quarters of a minute
		now = now.Add(15 * time.Second)
		if i == 500 { // a restart in order
			until := now.Add(time.Minute).Truncate(time.Minute)
			kept.entries = append(kept.entries, s.Minutes(written, until)...)
			s, written = New(owners, 0, until), until
			now = until
		}
		if _, err := s.Add("worker-2", report(now, allowed(at["shop/web"], at["shop/db"], 5432, 0)), concernsAll, now); err != nil {
			t.Fatal(err)
		}
		want++
		if until := now.Truncate(time.Minute); until.After(written) {
			kept.entries = append(kept.entries, s.Minutes(written, until)...)
			written = until
		}
	}
	since := metav1.NewMicroTime(begun)
	answer, err := s.Query(&analysis.FlowQuerySpec{Since: &since}, all, kept, now)
	if err != nil || len(answer.Flows) != 1 || answer.Flows[0].Connections != int64(want) || !answer.Since.Time.Equal(begun) {
		t.Errorf("%+v %v, want %d connections", answer, err, want)
	}
	if answer, err := s.Query(&analysis.FlowQuerySpec{}, all, kept, now); err != nil || answer.Flows[0].Connections > 245 || len(kept.asked) != 2 {
		t.Errorf("without a time only memory is asked: %+v %v", answer.Flows, err)
	}
	web := RuleKey{"AntreaNetworkPolicy", "shop", "db", "In", "web", 0}
	if hits, err := s.Hits(begun, all, kept, now); err != nil || hits.Rules[web] != (Hit{int64(want), now}) || len(hits.Rules) != 1 || !hits.Since.Equal(begun) {
		t.Errorf("%+v %v, want %d connections", hits, err, want)
	}
	if hits, err := s.Hits(now.Add(-time.Minute), all, kept, now); err != nil || hits.Rules[web].Connections > 6 || !hits.Since.Equal(now.Add(-time.Minute)) {
		t.Errorf("of the last minute: %+v %v", hits, err)
	}
	shop := Sight{Namespace: func(n string) bool { return n == "bank" }}
	if hits, err := s.Hits(begun, shop, kept, now); err != nil || len(hits.Rules) != 0 {
		t.Errorf("a tenant counts what he does not see: %+v %v", hits, err)
	}
	if answer, err := s.Query(&analysis.FlowQuerySpec{Since: &since}, shop, kept, now); err != nil || len(answer.Flows) != 0 {
		t.Errorf("a tenant sees on disk what he does not see: %+v %v", answer.Flows, err)
	}
}

// TestTap takes what comes as it comes, and loses what it does not take, counted, without stopping
// anybody.
func TestTap(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	tap := s.Tap()
	for i := range 2 {
		if _, err := s.Add("worker-2", report(begun, allowed(at["shop/web"], at["shop/db"], 5432, 0)), concernsAll, begun); err != nil {
			t.Fatal(i, err)
		}
		if x := Told(<-tap); x.Connections != 1 || x.To.Name != "db" || x.By.Name != "db" {
			t.Errorf("%+v", x)
		}
	}
	r := report(begun)
	for range 2000 {
		r.Traffic = append(r.Traffic, allowed(at["shop/web"], at["shop/db"], 5432, 0))
	}
	const more = 3
	for range maxTap/2000 + more {
		if _, err := s.Add("worker-2", r, concernsAll, begun); err != nil {
			t.Fatal(err)
		}
	}
	if lost := s.Stats().Losses.Unlogged; lost != more*2000 || len(tap) != maxTap {
		t.Errorf("%d lost, %d wait", lost, len(tap))
	}
}
