package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/status"
)

func someReport() *status.Report {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	renewed := metav1.NewMicroTime(at.Add(-3 * time.Second))
	old := int64(250)
	return &status.Report{
		At:         metav1.NewTime(at),
		State:      status.Attention,
		Controller: status.Controller{Holder: "nephele up", Renewed: &renewed, Works: true},
		Accounts: []status.Account{
			{
				Name:       "cloud/a-name-that-is-longer-than-its-column",
				Mode:       "enforce",
				Ready:      "True",
				Waiting:    true,
				GuardedVMs: 7,
				Regions: []status.Region{
					{Name: "eu-west-1", VMs: 10, AgeSeconds: &old},
					{Name: "us-east-1", Error: "throttled"},
				},
				Quotas: status.Quotas{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, MostGroups: 3},
			},
		},
		Selectors: status.Selectors{Total: 2, Ready: 1},
		VMs:       status.VMs{Total: 10, ByMode: map[string]int{"enforce": 8, "plan": 2}, Policies: 8, Realized: 7, Refused: 1},
		Policies:  status.Policies{Total: 5, ByPhase: map[status.Phase]int{status.Realized: 4, status.Failed: 1}},
		Attention: []status.Finding{
			{
				About:   "AntreaNetworkPolicy shop/db-from-app",
				Reason:  "Refused",
				Message: "refused on 1 VMs, for example shop/db-2\x1b[2J: needs 73 ingress rules in one group, quota 60",
				Do:      "raise the quota",
			},
		},
	}
}

// someSet is what there is to say in a hub.
func someSet() *status.Report {
	r := someReport()
	heard := metav1.NewTime(r.At.Add(-90 * time.Minute))
	r.Clusters = []status.Cluster{
		{Name: "east", State: "InSync", LastHeard: &r.At, Entities: 10_000, Policies: map[status.Phase]int{status.Realized: 12}},
		{Name: "west", State: "NotHeard", LastHeard: &heard, Entities: 7, Policies: map[status.Phase]int{status.Failed: 1, "Unknown": 11}, Wrong: []status.ClusterPolicy{{
			Policy: "ClusterNetworkPolicy db-from-web", Phase: status.Failed, Reason: "IdentityHidden",
			Message: "a rule allows Pods that cannot be told from others: west sees the Pods of east by the addresses of their Nodes (seenAs of Cluster east to 0.0.0.0/0), which others share",
		}}},
		{Name: "north", State: "NotJoined"},
	}
	return r
}

// TestStatusScreen: one screen of 80 columns, in which nothing does anything to the terminal.
func TestStatusScreen(t *testing.T) {
	got := show.Status(someReport(), false, Version())
	for _, l := range strings.Split(got, "\n") {
		if n := utf8.RuneCountInString(l); n > terminal.Screen {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	if strings.ContainsRune(got, '\x1b') {
		t.Error("an escape sequence is printed")
	}
	want := `1 thing needs attention.

Controller  nephele up, last heard of 3s ago; this command: VERSION
Accounts                   REGION            VMS GUARDED   AGE  STATE
  cloud/a-name-that-is-lo~ eu-west-1          10       7    4m  Ready,WAITS
                           us-east-1           0         never!
`
	lines := strings.Split(strings.ReplaceAll(got, Version(), "VERSION"), "\n")
	for i, l := range strings.Split(strings.TrimSpace(want), "\n") {
		if l != lines[i] {
			t.Errorf("line %d:\n%s", i, cmp.Diff(l, lines[i]))
		}
	}
	for _, part := range []string{"VMs         10: 8 enforce, 2 plan; with policies: 8, of which all are realized\n            on 7; with refusals: 1", "Policies    5: 4 Realized, 1 Failed", "to do: raise the quota", "never!"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	t.Log("\n" + got)
}

// TestStatusWaits: --wait ends with 1 when its time is over, and says what it waited for.
func TestStatusWaits(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var out, progress bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- showStatus(t.Context(), c, clk, statusFlags{output: "json", wait: true, timeout: 10 * time.Second, policies: []string{"shop/p"}}, &out, &progress)
	}()
	for limit := time.Now().Add(2 * time.Minute); ; {
		select {
		case err := <-done:
			if !errors.Is(err, terminal.ErrNo) {
				t.Errorf("error %v, want that the answer is no", err)
			}
			if want := "waiting: policy shop/p is Missing\nstill waiting after 10s: policy shop/p is Missing\n"; progress.String() != want {
				t.Errorf("progress %q, want %q", progress.String(), want)
			}
			if !strings.Contains(out.String(), `"shop/p": "Missing"`) {
				t.Errorf("output %s", out.String())
			}
			return
		case <-time.After(time.Millisecond):
			if time.Now().After(limit) {
				t.Fatal("it does not end")
			}
			if clk.HasWaiters() {
				clk.Step(statusPoll)
			}
		}
	}
}
