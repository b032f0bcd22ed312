package clusterset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// reach asks the hub which ends reach which, and lets time go by until it answers.
func (s *set) reach(spec analysis.ReachReviewSpec) (analysis.ReachReviewStatus, error) {
	type answer struct {
		analysis.ReachReviewStatus
		error
	}
	done := make(chan answer, 1)
	go func() {
		status, err := s.now.Reach(s.Context(), spec)
		done <- answer{status, err}
	}()
	var got *answer
	s.until("the hub answers", func() (bool, any) {
		select {
		case a := <-done:
			got = &a
		default:
		}
		return got != nil, spec
	})
	return got.ReachReviewStatus, got.error
}

// rowsText is what rows say.
func rowsText(rows []analysis.ReachRow) string {
	var out []string
	for _, r := range rows {
		names := func(side analysis.ReachSide) string {
			all := slices.Clone(side.Addresses)
			for _, e := range side.Endpoints {
				all = append(all, e.Name)
			}
			return strings.Join(all, ",")
		}
		out = append(out, fmt.Sprintf("%s -> %s %s %s (%s, %s)", names(r.From), names(r.To), r.Traffic, r.Verdict, r.Egress.Outcome, r.Ingress.Outcome))
	}
	return strings.Join(out, "; ")
}

// TestReachOfSet: the clusters of both ends decide which ends reach which, in few rows, and a
// cluster that does not answer is named.
func TestReachOfSet(t *testing.T) {
	s := newSet(t, "east", "west")
	for _, name := range []string{"web-1", "web-2"} {
		s.pod("east", name, "web", map[string]string{"web-1": "10.1.0.5", "web-2": "10.1.0.6"}[name])
	}
	s.pod("west", "db", "db", "10.2.0.7")
	s.pod("west", "batch", "batch", "10.2.0.8")
	for _, name := range []string{"east", "west"} {
		s.until(name+" is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == 2, c.Status })
	}
	asked := func(from, to, port string) string {
		t.Helper()
		a, err := s.reach(analysis.ReachReviewSpec{From: from, To: to, Port: port, Refused: true})
		if err != nil {
			return "wrong: " + err.Error()
		}
		out := rowsText(a.Flows)
		for _, u := range a.Unread {
			out += " | " + u
		}
		return out
	}
	for _, c := range [][4]string{
		{"all of two", "east:shop/*", "west:shop/db", "east:shop/web-1,east:shop/web-2 -> west:shop/db TCP 5432 Allow (Allow, Allow)"},
		{"by labels", "*:shop/app=web", "west:*/app in (db)", "east:shop/web-1,east:shop/web-2 -> west:shop/db TCP 5432 Allow (Allow, Allow)"},
		{"everybody", "any", "west:pod/shop/db", "east:shop/web-1,east:shop/web-2,west:shop/batch -> west:shop/db TCP 5432 Allow (Allow, Allow)"},
		{"an address of nobody's", "192.0.2.1", "west:shop/db", "192.0.2.1 -> west:shop/db TCP 5432 Unknown (Unanswered, Allow) | Egress: nobody of the set is asked about an address that is no cluster's"},
		{"a cluster that is none", "south:shop/web", "west:shop/db", `wrong: spec.from: there is no Cluster "south"`},
		{"nobody", "east:shop/none", "west:shop/db", "wrong: spec.from: no cluster has told of a workload"},
		{"no cluster", "east:shop/web-1", "shop/db", `wrong: spec.to "shop/db": want the cluster before it`},
		{"no selector", "east:shop/a=b=c", "west:shop/db", "wrong: spec.from"},
		{"oneself", "west:shop/db", "west:shop/db", "wrong: spec.to: no source and destination"},
	} {
		if got := asked(c[1], c[2], "5432"); !strings.HasPrefix(got, c[3]) || strings.HasPrefix(c[3], "e") && got != c[3] {
			t.Errorf("%s: %s\nwant %s", c[0], got, c[3])
		}
	}
	for want, spec := range map[string]analysis.ReachReviewSpec{
		"spec.port is missing":         {From: "any", To: "west:shop/db"},
		"the number of one port":       {From: "any", To: "west:shop/db", Port: "80-90"},
		"asked for rows, or for a map": {From: "any", To: "west:shop/db", Port: "80", GroupBy: "kind"},
		"want the number of rows":      {From: "any", To: "west:shop/db", Port: "80", Limit: -1},
		"node/NAME, or an address":     {From: "east:shop", To: "west:shop/db", Port: "80"},
		"want CLUSTER:NAMESPACE/NAME,": {From: "east:a/b/c", To: "west:shop/db", Port: "80"},
	} {
		if got, err := s.reach(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", got.Flows, err, want)
		}
	}
	if got := asked("any", "west:shop/db", "1"); !strings.Contains(got, "Unknown (Unanswered, Unanswered) | east: it says: the question could not be answered | west: it says: the question could not be answered") {
		t.Errorf("a panic: %s", got)
	}
	if got, err := s.reach(analysis.ReachReviewSpec{From: "any", To: "west:shop/db", Port: "80"}); err != nil || got.Total != 0 {
		t.Errorf("nobody reaches it, and what is refused is told: %v %v", got, err)
	}

	// Dead without a word.
	side := s.sides["east"]
	side.line.set(func() { side.line.held = true })
	if got, want := asked("any", "west:shop/db", "5432"), "east:shop/web-1,east:shop/web-2 -> west:shop/db TCP 5432 Unknown (Unanswered, Allow); west:shop/batch -> west:shop/db TCP 5432 Allow (Allow, Allow) | east: it has not answered within 5s"; got != want {
		t.Errorf("dead: %s\nwant %s", got, want)
	}
	side.line.set(func() { side.line.held = false })
	var m setv1alpha1.Membership
	s.until("east answers again", func() (bool, any) {
		got := asked("east:shop/web-1", "west:shop/db", "5432")
		return strings.HasSuffix(got, "Allow (Allow, Allow)"), got
	})
	s.must(side.Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
	no := false
	m.Spec.Accept.Questions = &no
	s.must(side.Update(t.Context(), &m))
	s.until("east answers nothing", func() (bool, any) {
		got := asked("east:shop/web-1", "west:shop/db", "5432")
		return strings.Contains(got, "| east: it says: its Membership answers no questions"), got
	})
}

// TestReachIsWhatEachSays: for many pairs the rows say what comes of what both clusters say of each
// pair, and each pair is in one row.
func TestReachIsWhatEachSays(t *testing.T) {
	s := newSet(t, "east", "west")
	outcomes := []string{"Allow", "Drop", "Reject", "Native"}
	judge := func(from, to string) string { return outcomes[(from[len(from)-1]+to[len(to)-1])%4] }
	s.sides["west"].judges = judge
	address := map[string]string{}
	for i := range 6 {
		for cluster, ip := range map[string]string{"east": fmt.Sprintf("10.1.0.%d", 7+i), "west": fmt.Sprintf("10.2.0.%d", 95+i)} {
			name := fmt.Sprintf("p%d", i)
			s.pod(cluster, name, "web", ip)
			address[cluster+":shop/"+name] = ip
		}
	}
	for _, name := range []string{"east", "west"} {
		s.until(name+" is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == 6, c.Status })
	}
	want := func(from, to string) string {
		inWest := func(who string) bool { return strings.HasPrefix(who, "west:") }
		seenAs := func(who string) string { // by the other end's cluster
			if inWest(from) != inWest(to) {
				return address[who]
			}
			return who
		}
		out := []string{"Allow", "Allow"} // east lets everything through
		if inWest(from) {
			out[0] = judge(from, seenAs(to))
		}
		if inWest(to) {
			out[1] = judge(seenAs(from), to)
		}
		for _, o := range out {
			if o == "Drop" || o == "Reject" {
				return o
			}
		}
		if out[0] == "Native" || out[1] == "Native" {
			return "Native"
		}
		return "Allow"
	}
	answer, err := s.reach(analysis.ReachReviewSpec{From: "any", To: "*:*/*", Port: "5432", Refused: true})
	if err != nil || len(answer.Unread) > 0 {
		t.Fatal(answer.Unread, err)
	}
	seen, verdicts := map[string]bool{}, map[string]bool{}
	for _, r := range answer.Flows {
		for _, from := range r.From.Endpoints {
			for _, to := range r.To.Endpoints {
				key := from.Name + " " + to.Name
				if seen[key] {
					t.Errorf("%s is told twice", key)
				}
				seen[key], verdicts[r.Verdict] = true, true
				if want := want(from.Name, to.Name); r.Verdict != want {
					t.Errorf("%s: %s, want %s", key, r.Verdict, want)
				}
			}
		}
	}
	if len(seen) != 12*11 || len(verdicts) != 4 {
		t.Errorf("%d pairs, want %d; %v", len(seen), 12*11, verdicts)
	}
	var few int
	for page := int32(1); page < 100; page++ {
		some, err := s.reach(analysis.ReachReviewSpec{From: "any", To: "*:*/*", Port: "5432", Refused: true, Limit: 5, Page: page})
		if err != nil || some.Total != answer.Total || len(some.Flows) > 5 {
			t.Fatal(some.Total, err)
		}
		if few += len(some.Flows); len(some.Flows) == 0 {
			break
		}
		if page == 2 {
			break // a member answers a bounded number of questions a second
		}
	}
	if few != 10 {
		t.Errorf("%d rows on two pages of 5", few)
	}
}

// TestTooManyPairs: a question about more than may be asked at once is refused, with the numbers.
func TestTooManyPairs(t *testing.T) {
	s := newSet(t, "east", "west")
	for i := range 33 {
		s.pod("east", fmt.Sprintf("p%d", i), "web", fmt.Sprintf("10.1.0.%d", 1+i))
		s.pod("west", fmt.Sprintf("p%d", i), "web", fmt.Sprintf("10.2.0.%d", 1+i))
	}
	for _, name := range []string{"east", "west"} {
		s.until(name+" is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == 33, c.Status })
	}
	_, err := s.reach(analysis.ReachReviewSpec{From: "east:*/*", To: "west:*/*", Port: "80"})
	if err == nil || err.Error() != "spec.from: 33 sources and 33 destinations are 1089 pairs, want at most 1000: name a Namespace, labels, or one workload" {
		t.Error(err)
	}
}
