package setmap_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/seed"
)

// world is a made-up set: what each end decides is drawn by its kind, the kind of the other end,
// and the port.
type world struct {
	*rand.Rand
	all []setmap.Workload
	// out and in are what an end decides about an address: one of the outcomes for port 80 and for
	// everything else.
	decided map[string][2]string
	// away does not answer, forgets is not known in its own cluster.
	away, forgets string
	hidden        map[string]setmap.View
}

var outcomes = []string{"Allow", "Allow", "Drop", "Reject", "Native", "Unknown"}

// decide draws what an end decides, once. Few kinds of ends and peers decide alike.
func (w *world) decide(side, end, peer string) [2]string {
	key := side + end + peer
	if _, drawn := w.decided[key]; !drawn {
		w.decided[key] = [2]string{outcomes[w.IntN(len(outcomes))], outcomes[w.IntN(len(outcomes))]}
	}
	return w.decided[key]
}

// kindOf is the kind of an address: its last number modulo 3.
func kindOf(a netip.Addr) string { raw := a.AsSlice(); return fmt.Sprint(raw[len(raw)-1] % 3) }

func newWorld(r *rand.Rand) *world {
	w := &world{Rand: r, decided: map[string][2]string{}, hidden: map[string]setmap.View{}}
	for c := range 2 + r.IntN(3) {
		name := fmt.Sprintf("c%d", c)
		for i := range 1 + r.IntN(8) {
			x := setmap.Workload{Cluster: name, Ref: wire.Ref{Kind: wire.Pod, Namespace: fmt.Sprintf("n%d", r.IntN(2)), Name: fmt.Sprintf("p%d", i)}, From: r.IntN(4) > 0, To: r.IntN(4) > 0}
			if r.IntN(5) > 0 {
				x.Addresses = append(x.Addresses, netip.MustParseAddr(fmt.Sprintf("10.%d.0.%d", c, i+1)))
			}
			if len(x.Addresses) == 0 || r.IntN(3) == 0 {
				x.Addresses = append(x.Addresses, netip.MustParseAddr(fmt.Sprintf("fd00:%d::%d", c, i+1)))
			}
			w.all = append(w.all, x)
		}
		if r.IntN(4) == 0 {
			w.hidden[name] = setmap.View{Words: "by others' addresses", Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", c))}}
		}
	}
	if r.IntN(3) == 0 {
		w.away = fmt.Sprintf("c%d", r.IntN(2))
	}
	if r.IntN(3) == 0 {
		w.forgets = w.all[r.IntN(len(w.all))].Name
	}
	return w
}

func (w *world) seen(cluster string, _ netip.Addr) setmap.View { return w.hidden[cluster] }

func family(a netip.Addr) bool { return a.Is4() }

// answer is what a member of the world says, row by row as they come.
func (w *world) answer(name string, q *setmap.Question) (json.RawMessage, error) {
	b := setmap.NewBuilder(len(q.Own))
	own := map[wire.Ref]*setmap.Workload{}
	for i := range w.all {
		if w.all[i].Cluster == name {
			own[w.all[i].Ref] = &w.all[i]
		}
	}
	known := func(i int) bool { return q.Own[i].Name != w.forgets }
	for i := range q.Own {
		if known(i) {
			b.Hold(i, setmap.Hold{})
		}
	}
	web := forecast.Packets{Ranges: []forecast.Range{{Protocol: 6, From: 80, To: 80}}}
	packets := []forecast.Packets{web, {Except: true, Ranges: web.Ranges}}
	groups := func(n int, kind func(i int) (string, bool)) map[string][]int {
		out := map[string][]int{}
		for i := range n {
			if k, is := kind(i); is {
				out[k] = append(out[k], i)
			}
		}
		return out
	}
	for _, v4 := range []bool{true, false} {
		ends := groups(len(q.Own), func(i int) (string, bool) {
			for _, a := range own[q.Own[i]].Addresses {
				if family(a) == v4 && known(i) {
					return kindOf(a), true
				}
			}
			return "", false
		})
		others := func(list []netip.Addr) map[string][]int {
			return groups(len(list), func(i int) (string, bool) { return kindOf(list[i]), family(list[i]) == v4 })
		}
		for mine, who := range ends {
			for theirs, them := range others(q.To) {
				for i, outcome := range w.decide("out"+name, mine, theirs) {
					b.Out(who, them, packets[i], setmap.Decision{Outcome: outcome})
				}
			}
			for theirs, them := range others(q.From) {
				for i, outcome := range w.decide("in"+name, mine, theirs) {
					b.In(them, who, packets[i], setmap.Decision{Outcome: outcome})
				}
			}
			for theirs, them := range ends {
				for i, outcome := range w.decide("within"+name, mine, theirs) {
					b.Within(who, them, packets[i], setmap.Decision{Outcome: outcome})
				}
			}
		}
	}
	return b.Answer(q)
}

// verdicts are what may be on the map about a packet of one workload to another, worked out packet
// by packet: one for each family that both have.
func (w *world) verdicts(a, b *setmap.Workload, port int) []string {
	at := 0
	if port != 80 {
		at = 1
	}
	ends := func(side, cluster string, end *setmap.Workload, own, peer netip.Addr) string {
		if cluster == w.away || end.Name == w.forgets {
			return "Unknown"
		}
		return w.decide(side+cluster, kindOf(own), kindOf(peer))[at]
	}
	var out []string
	for _, source := range a.Addresses {
		for _, destination := range b.Addresses {
			if family(source) != family(destination) {
				continue
			}
			var both []string
			if a.Cluster == b.Cluster {
				verdict := ends("within", a.Cluster, a, source, destination)
				if b.Name == w.forgets {
					verdict = "Unknown"
				}
				both = []string{verdict}
			} else {
				seen := source
				known := true
				if v := w.hidden[a.Cluster]; v.Words != "" {
					seen, known = v.Addresses[0], family(v.Addresses[0]) == family(source)
				}
				in := "Unknown"
				if known {
					in = ends("in", b.Cluster, b, destination, seen)
				}
				both = []string{ends("out", a.Cluster, a, source, destination), in}
			}
			verdict := "Allow"
			for _, worse := range []string{"Native", "Unknown"} {
				if slices.Contains(both, worse) {
					verdict = worse
				}
			}
			for _, o := range slices.Backward(both) {
				if o == "Drop" || o == "Reject" {
					verdict = o
				}
			}
			out = append(out, verdict)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestMapIsWhatBothEndsSay: for every packet the map says what comes of what both ends' clusters
// say of it, whatever they say, and about no other packet.
func TestMapIsWhatBothEndsSay(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	for range 200 {
		w := newWorld(r)
		spec := analysis.ReachReviewSpec{Grouped: true, Refused: true}
		if r.IntN(4) == 0 {
			spec.Port = "80"
		}
		m, err := setmap.New(spec, slices.Clone(w.all), w.seen)
		if err != nil {
			t.Fatal(err)
		}
		for name, q := range m.Questions() {
			if name == w.away {
				m.Answer(name, nil, errors.New("it cannot be reached"))
				continue
			}
			sent, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := setmap.ParseQuestion(sent)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := w.answer(name, got)
			if err != nil {
				t.Fatal(err)
			}
			a, err := setmap.ParseAnswer(raw, q)
			m.Answer(name, a, err)
			if err != nil {
				t.Fatal(err)
			}
		}
		out, unread := m.Result()
		if w.away != "" && !slices.Contains(unread, w.away+": it cannot be reached") {
			t.Fatalf("unread %q, away %q", unread, w.away)
		}
		class := map[string]string{}
		for _, n := range out.Nodes {
			for _, member := range n.Members {
				class[member] = n.Key
			}
		}
		if len(class) != len(w.all) {
			t.Fatalf("%d of %d workloads are in classes", len(class), len(w.all))
		}
		title := func(x *setmap.Workload) string { return x.Cluster + ":pod/" + x.Namespace + "/" + x.Name }
		for i := range w.all {
			for k := range w.all {
				a, b := &w.all[i], &w.all[k]
				if i == k || !a.From || !b.To {
					continue
				}
				for _, port := range []int{80, 443} {
					var got []string
					for _, e := range out.Edges {
						p := forecast.Packets{Except: e.Except}
						for _, x := range e.Ranges {
							p.Ranges = append(p.Ranges, forecast.Range{Protocol: int(x.Protocol), From: int(x.From), To: int(x.To)})
						}
						if e.From == class[title(a)] && e.To == class[title(b)] && p.Contain(6, port) {
							got = append(got, e.Verdict)
						}
					}
					slices.Sort(got)
					want := w.verdicts(a, b, port)
					if spec.Port == "80" && port != 80 {
						want = nil
					}
					if !slices.Equal(slices.Compact(got), want) {
						t.Fatalf("%s to %s, port %d: %v, want %v; away %q, not known %q, hidden %v", title(a), title(b), port, got, want, w.away, w.forgets, w.hidden)
					}
				}
			}
		}
	}
}

// TestTooMuchWork: a member that answers with as many kinds of flows as it may makes what goes to
// and from it unknown, and nothing else, in a moment.
func TestTooMuchWork(t *testing.T) {
	var all []setmap.Workload
	for _, name := range []string{"evil", "good", "fine"} {
		for i := range 300 {
			all = append(all, setmap.Workload{Cluster: name, Ref: wire.Ref{Kind: wire.Pod, Namespace: "n", Name: fmt.Sprint(i)}, From: true, To: true,
				Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.%d.%d.%d", name[0], i/250, i%250))}})
		}
	}
	m, err := setmap.New(analysis.ReachReviewSpec{}, all, func(string, netip.Addr) setmap.View { return setmap.View{} })
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range m.Questions() {
		places := func(n int) (out []int) {
			for i := range n {
				out = append(out, i)
			}
			return out
		}
		b := setmap.NewBuilder(len(q.Own))
		for i := range q.Own {
			h := setmap.Hold{}
			switch name {
			case "evil":
				h.Suspended = fmt.Sprint(i)
			case "good":
				h.Suspended = fmt.Sprint(i % 4)
			}
			b.Hold(i, h)
		}
		own, everything := places(len(q.Own)), forecast.Packets{Except: true}
		b.Out(own, places(len(q.To)), everything, setmap.Decision{Outcome: "Allow"})
		b.In(places(len(q.From)), own, everything, setmap.Decision{Outcome: "Allow"})
		b.Within(own, own, everything, setmap.Decision{Outcome: "Allow"})
		raw, err := b.Answer(q)
		if err != nil {
			t.Fatal(err)
		}
		a, err := setmap.ParseAnswer(raw, q)
		if err != nil {
			t.Fatal(err)
		}
		if name == "evil" {
			a.In, a.Out = slices.Repeat(a.In, setmap.MaxRows), slices.Repeat(a.Out, setmap.MaxRows)
			again, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if a, err = setmap.ParseAnswer(again, q); err != nil {
				t.Fatal(err)
			}
		}
		m.Answer(name, a, nil)
	}
	out, unread := m.Result()
	want := []string{"good to fine", "fine to good"}
	if len(unread) == 0 {
		t.Error("all of it is known")
	}
	for _, u := range unread {
		if !strings.Contains(u, "evil") || !strings.Contains(u, "too many kinds of flows") {
			t.Error(u)
		}
	}
	cluster := map[string]string{}
	for _, n := range out.Nodes {
		cluster[n.Key] = n.Cluster
	}
	found := map[string]bool{}
	for _, e := range out.Edges {
		if e.Verdict == "Allow" {
			found[cluster[e.From]+" to "+cluster[e.To]] = true
		}
	}
	for _, w := range want {
		if !found[w] {
			t.Errorf("%s is not known", w)
		}
	}
}

// FuzzAnswer: whatever a member says is an answer within its bounds or none, and the map is told.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"sets":[[0,0]],"packets":[{"x":true}],"decisions":[{"o":"Allow"}],"out":[[0,0,0,0]],"in":[[0,0,0,0]],"within":[[0,0,0,0]],"holds":[{}],"of":[0,-1]}`))
	f.Add([]byte(`{"sets":[[0,1,1,1]],"of":[0,0]}`))
	f.Add([]byte(`{"packets":[{"r":[[6,80,80],[6,81,99999]]}],"of":[-1,-1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all []setmap.Workload
		for _, name := range []string{"a", "b"} {
			for i := range 2 {
				all = append(all, setmap.Workload{Cluster: name, Ref: wire.Ref{Kind: wire.Pod, Namespace: "n", Name: fmt.Sprint(i)}, From: true, To: true,
					Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", name[0], i))}})
			}
		}
		m, err := setmap.New(analysis.ReachReviewSpec{Refused: true}, all, func(string, netip.Addr) setmap.View { return setmap.View{} })
		if err != nil {
			t.Fatal(err)
		}
		a, err := setmap.ParseAnswer(raw, m.Questions()["a"])
		m.Answer("a", a, err)
		m.Answer("b", nil, errors.New("away"))
		out, _ := m.Result()
		for _, e := range out.Edges {
			if e.Verdict == "Allow" && (a == nil || len(a.Within) == 0) {
				t.Errorf("%+v, and nobody has said so", e)
			}
		}
	})
}

// TestForgedAnswers: what no honest member says is no answer, and says why.
func TestForgedAnswers(t *testing.T) {
	q := &setmap.Question{Own: []wire.Ref{{Kind: wire.Pod, Namespace: "n", Name: "a"}, {Kind: wire.Pod, Namespace: "n", Name: "b"}}, To: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Packets: setmap.Packets{Except: true}}
	policies := []analysis.Policy{{Type: "AntreaClusterNetworkPolicy", Name: "p"}}
	honest := func() *setmap.Answer {
		return &setmap.Answer{
			Sets: [][]int{{0, 1}, {0, 0}}, Packets: []setmap.Packets{{Ranges: [][]int{{6, 80, 80}, {6, 443, 443}, {17, 0, 65535}}}}, Decisions: []setmap.Decision{{Outcome: "Allow", Policies: policies}},
			Out: []setmap.Row{{0, 1, 0, 0}}, Within: []setmap.Row{{0, 0, 0, 0}}, Holds: []setmap.Hold{{Policies: policies}}, Of: []int{0, -1},
		}
	}
	for want, forge := range map[string]func(a *setmap.Answer){
		"":                             func(*setmap.Answer) {},
		`"Open" is no outcome`:         func(a *setmap.Answer) { a.Decisions[0].Outcome = "Open" },
		"was not asked about":          func(a *setmap.Answer) { a.Sets[1] = []int{0, 1 << 40} },
		"not asked about: half a run":  func(a *setmap.Answer) { a.Sets[1] = []int{0} },
		"not asked about: no run":      func(a *setmap.Answer) { a.Sets[1] = nil },
		"not asked about: twice":       func(a *setmap.Answer) { a.Sets[0] = []int{0, 1, 1, 1} },
		"not asked about: backwards":   func(a *setmap.Answer) { a.Sets[0] = []int{1, 0} },
		"not asked about: below":       func(a *setmap.Answer) { a.Sets[0] = []int{-1, 0} },
		"what it does not list":        func(a *setmap.Answer) { a.Out[0][2] = 1 << 40 },
		"what it does not list: below": func(a *setmap.Answer) { a.Out[0][0] = -1 },
		"what it does not list: of":    func(a *setmap.Answer) { a.Of[0] = 1 },
		"flows that is none":           func(a *setmap.Answer) { a.Out[0] = setmap.Row{0, 1, 0} },
		"1 workloads, want 2":          func(a *setmap.Answer) { a.Of = a.Of[:1] },
		"501 kinds of flows":           func(a *setmap.Answer) { a.Within = slices.Repeat(a.Within, setmap.MaxRows+1) },
		"257 ranges of ports": func(a *setmap.Answer) {
			for i := range 254 {
				a.Packets[0].Ranges = append(a.Packets[0].Ranges, []int{18 + i%200, 0, 0})
			}
		},
		"that are none: order":    func(a *setmap.Answer) { a.Packets[0].Ranges = [][]int{{17, 0, 0}, {6, 0, 0}} },
		"that are none: overlap":  func(a *setmap.Answer) { a.Packets[0].Ranges = [][]int{{6, 80, 90}, {6, 85, 95}} },
		"that are none: port":     func(a *setmap.Answer) { a.Packets[0].Ranges = [][]int{{6, 80, 65536}} },
		"that are none: protocol": func(a *setmap.Answer) { a.Packets[0].Ranges = [][]int{{256, 0, 0}} },
		"that are none: short":    func(a *setmap.Answer) { a.Packets[0].Ranges = [][]int{{6, 80}} },
		"it is too long":          func(a *setmap.Answer) { a.Holds[0].Suspended = strings.Repeat("x", wire.MostAnswer) },
		"a mode is too long":      func(a *setmap.Answer) { a.Holds[0].Suspended = strings.Repeat("x", 1000) },
		"a policy of another":     func(a *setmap.Answer) { a.Holds[0].Policies = []analysis.Policy{{Name: "p", Cluster: "east"}} },
		"without a name that may": func(a *setmap.Answer) { a.Decisions[0].Policies = []analysis.Policy{{Name: "\x1b[2J"}} },
		"11 policies":             func(a *setmap.Answer) { a.Decisions[0].Policies = slices.Repeat(policies, 11) },
	} {
		a := honest()
		forge(a)
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		_, err = setmap.ParseAnswer(raw, q)
		part, _, _ := strings.Cut(want, ":")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := setmap.ParseAnswer(json.RawMessage("{"), q); err == nil {
		t.Error("half a record is an answer")
	}
	for _, raw := range []string{"{", `{"own":[{"k":"x"}]}`, `{"packets":{"r":[[6]]}}`, `{"own":[` + strings.Repeat(`{"k":"n","n":"a"},`, setmap.MaxWorkloads) + `{"k":"n","n":"a"}]}`} {
		if _, err := setmap.ParseQuestion(json.RawMessage(raw)); err == nil {
			t.Errorf("%.40s is a question", raw)
		}
	}
}
