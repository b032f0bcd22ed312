package flowscmd

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/policy"
)

// workload is a Pod of a random world.
type workload struct {
	namespace, name, app string
	address              netip.Addr
	gone                 bool
}

// recommendTo runs the command with what a store has seen and the objects of a cluster.
func recommendTo(t *testing.T, s *live.Store, objects *input.Objects, args ...string) (policies []*v1beta1.NetworkPolicy, notes string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	c := RecommendCommand(Needs{
		Register: func(f *pflag.FlagSet) { f.StringArrayP("filename", "f", nil, ""); f.String("snapshot", "", "") }, Printable: func(s string) string { return s },
		Window: func(w io.Writer) io.Writer { return w }, Ask: func(*cobra.Command) (Asker, error) { return asks(s, live.Sight{All: true}), nil },
		Now: func() time.Time { return now }, Read: func(*cobra.Command) (*explain.Computation, error) { return explain.Compute(objects), nil },
	})
	c.SetOut(&o)
	c.SetErr(&e)
	c.SetArgs(args)
	c.SilenceUsage, c.SilenceErrors = true, true
	err = c.ExecuteContext(t.Context())
	for _, text := range strings.Split(o.String(), "---\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		p := &v1beta1.NetworkPolicy{}
		if err := yaml.Unmarshal([]byte(text), p); err != nil {
			t.Fatal(err)
		}
		p.UID = types.UID("uid " + p.Name)
		policies = append(policies, p)
	}
	return policies, e.String(), err
}

// TestRecommendLive recommends policies of what agents have seen in random worlds, and asks about
// every pair and port with these enforced: allowed is what Pods with the same labels were seen to
// do, and nothing else. Pods that are gone count as Pods of their workload.
func TestRecommendLive(t *testing.T) {
	allowedBefore, droppedAfter := 0, 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		objects := &input.Objects{}
		owners := live.NewOwners()
		var all []workload
		for i, namespace := range []string{"shop", "shop", "bank"} {
			if i != 1 {
				objects.Namespaces = append(objects.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"kubernetes.io/metadata.name": namespace}}})
			}
			for n := range 5 {
				w := workload{namespace: namespace, app: string(rune('a' + n/2)), address: netip.AddrFrom4([4]byte{10, 0, byte(i), byte(n)})}
				w.name, w.gone = fmt.Sprintf("%s-6c5f7d8b9-%s", w.app, []string{"x2z4b", "q5w6t", "m7n8v", "b9c2d", "f4g5h", "j6k7l"}[n%2+2*i]), i == 1
				all = append(all, w)
				owners.Set(live.Owner{Kind: "Pod", Namespace: w.namespace, Name: w.name, Enforcer: "worker"}, []netip.Addr{w.address}, now)
				if w.gone {
					continue
				}
				objects.Pods = append(objects.Pods, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name, UID: types.UID(w.namespace + w.name), Labels: map[string]string{"app": w.app, "pod-template-hash": "6c5f7d8b9"}},
					Spec:       corev1.PodSpec{NodeName: "worker"}, Status: corev1.PodStatus{PodIP: w.address.String(), PodIPs: []corev1.PodIP{{IP: w.address.String()}}},
				})
			}
		}
		s := live.New(owners, 0, now)
		report := &v1alpha1.TrafficReportSpec{
			Since: metav1.NewMicroTime(now), Until: metav1.NewMicroTime(now), Causes: []v1alpha1.TrafficCause{{Cause: "Native"}, {Cause: "Failsafe", Rule: "x"}, {Cause: "Policy", UID: "1"}},
		}
		type service struct {
			fromNamespace, from, to string
			port                    int
		}
		want, guarded := map[service]bool{}, map[string]bool{}
		for range 25 {
			from, to, port := all[r.IntN(len(all))], all[r.IntN(10)], 80+r.IntN(3)
			if from.name == to.name {
				continue
			}
			x := v1alpha1.ReportedTraffic{Direction: "Through", Client: from.address.String(), Server: to.address.String(), Protocol: 6, Port: uint16(port), Verdict: "Allow", Connections: 1}
			switch r.IntN(6) {
			case 0:
				x.By = 1 // it passes whatever policies say
			case 1:
				x.By, x.Differs = 2, "Leaks"
			case 2:
				x.Verdict, x.By, x.Ended, x.Connections = "", -1, 1, 0 // its beginning was not seen
				want[service{from.namespace, from.app, to.app, port}], guarded[to.app] = true, true
			default:
				want[service{from.namespace, from.app, to.app, port}], guarded[to.app] = true, true
			}
			report.Traffic = append(report.Traffic, x)
		}
		if refused, err := s.Add("worker", report, policies, now); refused != 0 || err != nil {
			t.Fatal(refused, err)
		}
		written, notes, err := recommendTo(t, s, objects, "shop", "--by", "app")
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, notes)
		}
		for _, p := range written {
			p.Annotations = nil
		}
		with := *objects
		with.Policies = written
		after := explain.Compute(&with)
		for _, from := range all {
			for _, to := range all[:5] {
				for port := 80; port < 83; port++ {
					if from.gone || from.name == to.name && from.namespace == to.namespace {
						continue
					}
					x, err := after.Answer(explain.Question{From: "pod/" + from.namespace + "/" + from.name, To: "pod/" + to.namespace + "/" + to.name, Protocol: "TCP", Port: strconv.Itoa(port)})
					if err != nil {
						t.Fatal(err)
					}
					passes := string(x.Wanted) != "Drop"
					wanted := !guarded[to.app] || want[service{from.namespace, from.app, to.app, port}]
					if passes != wanted {
						t.Errorf("seed %d: %s/%s to %s port %d: %s, want allowed %v\n%s", seed, from.namespace, from.name, to.name, port, x.Wanted, wanted, notes)
					}
					if passes && guarded[to.app] {
						allowedBefore++
					} else if !passes {
						droppedAfter++
					}
				}
			}
		}
	}
	if allowedBefore < 200 || droppedAfter < 200 {
		t.Errorf("only %d allowed and %d dropped", allowedBefore, droppedAfter)
	}
}

// TestWhatCounts: what passes whatever policies say is not allowed by them, and neither is what
// passes though it should not; what groups of a cloud let pass, and what began before anybody
// looked, is.
func TestWhatCounts(t *testing.T) {
	db := policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "shop", Name: "db"}
	ends := map[policy.EntityRef]policy.Entity{db: {EntityRef: db, Labels: map[string]string{"app": "db"}}}
	to := v1alpha1.FlowEnd{Address: "10.0.0.1", Kind: "ExternalEntity", Namespace: "shop", Name: "db"}
	for what, c := range map[string]struct {
		flow  v1alpha1.SeenFlow
		edges int
		rows  int
	}{
		"group":     {v1alpha1.SeenFlow{Verdict: "Allow", By: v1alpha1.TrafficCause{Cause: "Group"}}, 1, 1},
		"native":    {v1alpha1.SeenFlow{Verdict: "Allow", By: v1alpha1.TrafficCause{Cause: "Native"}}, 1, 1},
		"ended":     {v1alpha1.SeenFlow{Verdict: "Unknown", By: v1alpha1.TrafficCause{Cause: "Unknown"}}, 1, 1},
		"denied":    {v1alpha1.SeenFlow{Verdict: "Drop", By: v1alpha1.TrafficCause{Cause: "Isolation"}}, 0, 1},
		"failsafe":  {v1alpha1.SeenFlow{Verdict: "Allow", By: v1alpha1.TrafficCause{Cause: "Failsafe"}}, 0, 0},
		"related":   {v1alpha1.SeenFlow{Verdict: "Allow", By: v1alpha1.TrafficCause{Cause: "Related"}}, 0, 0},
		"leaks":     {v1alpha1.SeenFlow{Verdict: "Allow", Differs: "Leaks", By: v1alpha1.TrafficCause{Cause: "Policy"}}, 0, 0},
		"cut by it": {v1alpha1.SeenFlow{Verdict: "Drop", Differs: "Cut", By: v1alpha1.TrafficCause{Cause: "Policy"}}, 0, 1},
	} {
		c.flow.From, c.flow.To, c.flow.Protocol, c.flow.Port, c.flow.Connections = v1alpha1.FlowEnd{Address: "192.0.2.7"}, to, "TCP", 5432, 3
		edges, rows, _ := liveEdges([]v1alpha1.SeenFlow{c.flow, c.flow}, ends, "shop")
		if len(edges) != c.edges || len(rows) != 2*c.rows {
			t.Errorf("%s: %d edges and %d rows", what, len(edges), len(rows))
		}
	}
}
