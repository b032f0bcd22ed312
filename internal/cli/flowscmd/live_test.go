package flowscmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/flows/live"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// policies knows the policies of told.
func policies(uid string) (kind, namespace, name string, known bool) {
	if uid == "2" {
		return "K8sNetworkPolicy", "shop", "quiet", true
	}
	return "AntreaNetworkPolicy", "vms", "db", true
}

// told is a store that two enforcers have told of traffic.
func told(t *testing.T) *live.Store {
	owners := live.NewOwners()
	begun := now.Add(-2 * time.Hour)
	for name, o := range map[string]live.Owner{
		"10.0.0.1": {Kind: "Pod", Namespace: "shop", Name: "web", Enforcer: "worker"}, "10.0.0.2": {Kind: "ExternalEntity", Namespace: "vms", Name: "db", Enforcer: "vms/db"},
		"10.96.0.9": {Kind: "Service", Namespace: "shop", Name: "api"}, "10.0.0.3": {Kind: "Pod", Namespace: "shop", Name: "api-1", Enforcer: "worker"},
		"192.0.2.1": {Kind: "Node", Name: "worker", Enforcer: "worker"},
	} {
		owners.Set(o, []netip.Addr{netip.MustParseAddr(name)}, begun)
	}
	s := live.New(owners, 0, begun)
	for key, traffic := range map[string][]v1alpha1.ReportedTraffic{
		"vms/db": {
			{Direction: "In", Client: "10.0.0.1", Server: "10.0.0.2", Protocol: 6, Port: 5432, Verdict: "Allow", By: 0, Connections: 3},
			{Direction: "In", Client: "10.0.0.1", Server: "10.0.0.2", Protocol: 6, Port: 5432, By: -1, Ended: 2, Bytes: 4096, ReplyBytes: 100_000},
			{Direction: "In", Client: "198.51.100.9", Server: "10.0.0.2", Protocol: 6, Port: 22, Verdict: "Drop", By: 1, Connections: 7},
			{Direction: "In", Client: "192.0.2.1", Server: "10.0.0.2", Protocol: 17, Port: 68, Verdict: "Allow", By: 3, Connections: 1},
		},
		"worker": {
			{Direction: "Through", Client: "10.0.0.1", Server: "10.0.0.3", Service: "10.96.0.9:80", Protocol: 6, Port: 8080, Verdict: "Allow", By: 2, Connections: 1},
			{Direction: "Through", Client: "10.0.0.3", Server: "10.0.0.1", Protocol: 1, Verdict: "Allow", By: 4, Connections: 1, Differs: "Leaks"},
		},
	} {
		_, err := s.Add(key, &v1alpha1.TrafficReportSpec{
			Since: metav1.NewMicroTime(now), Until: metav1.NewMicroTime(now), Uncounted: key == "worker", Losses: v1alpha1.TrafficLosses{Packets: 5}, Traffic: traffic,
			Causes: []v1alpha1.TrafficCause{
				{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: "vms", Name: "db", UID: "1", Rule: "from web"},
				{Cause: "Isolation", Type: "AntreaNetworkPolicy", Namespace: "vms", Name: "db", UID: "1"}, {Cause: "Native"}, {Cause: "Failsafe", Rule: "dhcp"},
				{Cause: "Policy", Type: "K8sNetworkPolicy", Namespace: "shop", Name: "quiet", UID: "2"},
			},
		}, policies, now)
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs the command with a controller that holds a store.
func run(ctx context.Context, ask Asker, args ...string) (out, errs string, err error) {
	var o, e bytes.Buffer
	c := Command(Needs{
		Register: func(f *pflag.FlagSet) { f.StringArrayP("filename", "f", nil, ""); f.String("snapshot", "", "") }, Printable: func(s string) string { return s },
		Window: func(w io.Writer) io.Writer { return w }, Now: func() time.Time { return now }, After: func(time.Duration) <-chan time.Time { c := make(chan time.Time); close(c); return c }, Ask: func(*cobra.Command) (Asker, error) { return ask, nil },
	})
	c.SetOut(&o)
	c.SetErr(&e)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func asks(s *live.Store, sight live.Sight) Asker {
	return func(_ context.Context, q *v1alpha1.FlowQuery) error {
		a, err := s.Query(&q.Spec, sight, nil, now)
		if err == nil {
			q.Status = *a
		}
		return err
	}
}

// TestLive asks a controller and reads the table.
func TestLive(t *testing.T) {
	s := told(t)
	everything := live.Sight{All: true}
	out, errs, err := run(t.Context(), asks(s, everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`03:04:05  shop/web      vms/db                                tcp/5432  accepted ingress  AntreaNetworkPolicy vms/db, rule "from web"  3            104 kB`,
		`03:04:05  198.51.100.9  vms/db                                tcp/22    dropped ingress   isolated by AntreaNetworkPolicy vms/db       7            0 B`,
		`03:04:05  shop/web      shop/api-1 (asked shop/api:80)        tcp/8080  accepted          no policy                                    1`,
		`03:04:05  shop/api-1    shop/web                              icmp      accepted          NetworkPolicy shop/quiet                     1                    Leaks`,
		`03:04:05  node/worker   vms/db                                udp/68    accepted ingress  failsafe flow "dhcp"                         1`,
	} {
		if words := strings.Join(strings.Fields(want), " "); !strings.Contains(strings.Join(strings.Fields(out), " "), words) {
			t.Errorf("no %q in\n%s", words, out)
		}
	}
	for _, want := range []string{"10 denied packets were not told", "net.netfilter.nf_conntrack_acct=1"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
	for args, want := range map[string]int{"--to vms/db": 3, "--to shop/api --accepted": 1, "--denied": 1, "--port 80": 1, "--policy vms/db": 2, "--from 198.51.100.0/24": 1, "--since 1m": 5, "--to shop/nobody": 0} {
		out, _, err := run(t.Context(), asks(s, everything), append(strings.Fields(args), "-o", "json")...)
		var got v1alpha1.FlowQueryStatus
		if e := json.Unmarshal([]byte(out), &got); err != nil || e != nil || len(got.Flows) != want {
			t.Errorf("%s: %d flows, want %d: %v %v", args, len(got.Flows), want, err, e)
		}
	}
	if out, _, err := run(t.Context(), asks(s, everything), "--differs"); err == nil || !strings.Contains(out, "Leaks") {
		t.Errorf("flows that differ are an answer of their own: %v\n%s", err, out)
	}
	out, errs, err = run(t.Context(), asks(s, live.Sight{Namespace: func(n string) bool { return n == "shop" }}))
	if err != nil || strings.Contains(out, "vms/") || !strings.Contains(out, "a policy that you may not read") || !strings.Contains(errs, "only flows with an end in a Namespace") {
		t.Errorf("a tenant sees %v\n%s%s", err, out, errs)
	}
}

// TestFollow follows what comes, and sees of each flow what was added.
func TestFollow(t *testing.T) {
	s := told(t)
	ctx, stop := context.WithCancel(t.Context())
	ask, asked := asks(s, live.Sight{All: true}), 0
	out, _, err := run(ctx, func(ctx context.Context, q *v1alpha1.FlowQuery) error {
		if asked++; asked == 2 {
			stop()
			_, err := s.Add("vms/db", &v1alpha1.TrafficReportSpec{
				Since: metav1.NewMicroTime(now), Until: metav1.NewMicroTime(now), Causes: []v1alpha1.TrafficCause{{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: "vms", Name: "db", UID: "1", Rule: "from web"}},
				Traffic: []v1alpha1.ReportedTraffic{{Direction: "In", Client: "10.0.0.1", Server: "10.0.0.2", Protocol: 6, Port: 5432, Verdict: "Allow", By: 0, Connections: 2}},
			}, policies, now)
			if err != nil {
				return err
			}
		}
		return ask(ctx, q)
	}, "--follow", "--to", "vms/db", "--port", "5432")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 || !strings.Contains(lines[1], `rule "from web"  3  104 kB`) || !strings.Contains(lines[2], `rule "from web"  2  0 B`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLiveRefuses names what flags are about.
func TestLiveRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--affected": "--affected: it is about flow logs; give --logs", "--unused": "--unused: it is about flow logs", "-f x.yaml": "--filename: it is about flow logs",
		"--denied --accepted": "--denied and --accepted: give one of them", "--limit -1": "--limit -1: want 0 or more", "--since yesterday": `--since "yesterday"`,
		"--logs x --follow": "--follow: flow logs do not grow",
	} {
		_, _, err := run(t.Context(), func(context.Context, *v1alpha1.FlowQuery) error { return nil }, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	away := errors.New("nobody is there")
	if _, _, err := run(t.Context(), func(context.Context, *v1alpha1.FlowQuery) error { return away }); !errors.Is(err, away) {
		t.Error(err)
	}
}
