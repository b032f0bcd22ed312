package preview_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// plannedWorlds is how many random accounts are tried.
const plannedWorlds = 6

// TestPlanAndConditionAgree: on random accounts whose VMs are in mode plan, the condition Planned
// of the selector and the statuses of the policies, written from what the controller computes, say
// what "nephele plan" prints, in words and counted from its documents.
func TestPlanAndConditionAgree(t *testing.T) {
	t.Parallel()
	refused, rounds := 0, 0
	for seed := uint64(100); seed < 100+plannedWorlds; seed++ {
		w := previewtest.NewWorld(t, seed)
		policies := w.Policies(3)
		for i := range 2 { // in the second half something is enforced already
			if i > 0 {
				w.Perform(t, -1)
				policies[1], policies[2] = w.Policy(1), w.Policy(2)
			}
			w.Want(t, policies, "plan")
			made, err := w.Planner.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			answer := w.Planner.Answer(made).Accounts[0]
			w.Want(t, policies, "plan") // planning has changed the inputs
			condition, statuses := controllerSays(t, w)
			if answer.Planned == nil || condition.Message != answer.Planned.Message {
				t.Errorf("seed %d: the condition says\n%s\nand the plan\n%+v", seed, condition.Message, answer.Planned)
				continue
			}
			if got, want := countIn(condition.Message, `(?:take over or to change|peers only|give back): (\d+)`), editedIn(answer); got != want {
				t.Errorf("seed %d: the condition counts %d interfaces, the documents %d: %s", seed, got, want, condition.Message)
			}
			if (condition.Status == metav1.ConditionTrue) != (len(answer.Refusals) == 0) {
				t.Errorf("seed %d: condition %s, refused %+v", seed, condition.Status, answer.Refusals)
			}
			for _, p := range answer.Policies {
				want := ""
				switch n := p.Refused; {
				case p.VMs == 0:
				case n > 0:
					refused++
					want = fmt.Sprintf("planned on %s: %d would be enforced, %d refused: ", cloud.Counted(int(p.PlanMode), "VM"), p.Realized+p.Pending, n)
				default:
					want = fmt.Sprintf("planned on %s: %d would be enforced", cloud.Counted(int(p.PlanMode), "VM"), p.Realized+p.Pending)
				}
				if got := statuses[p.Policy]; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
					t.Errorf("seed %d: %s: the status says %q, the plan %+v", seed, p.Policy, got, p)
				}
			}
			rounds = max(rounds, len(answer.Further))
			w.Want(t, policies, "enforce")
		}
	}
	if refused == 0 || rounds == 0 {
		t.Errorf("%d policies were refused, and there were %d further rounds", refused, rounds)
	}
}

// editedIn counts the interfaces that the documents of a plan and of all that follows set.
func editedIn(a analysis.AccountPlan) int {
	edited := map[string]bool{}
	for _, d := range append([]analysis.PlanDocument{a.Plan}, a.Further...) {
		for _, s := range d.Steps {
			if s.Kind == string(cloud.OpSetInterfaceGroups) {
				edited[s.Target] = true
			}
		}
	}
	return len(edited)
}

func countIn(text, pattern string) (sum int) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	return sum
}

// heard keeps what is reported of policies, by name.
type heard struct {
	sync.Mutex
	names    map[string]string
	messages map[string]string
}

func (h *heard) Report(_ context.Context, s *v1beta2.NetworkPolicyStatus) error {
	h.Lock()
	defer h.Unlock()
	h.messages[h.names[s.Name]] = s.Nodes[0].Message
	return nil
}

// controllerSays writes the statuses that the controller would write, and returns the condition
// Planned of the selector and what is said of the policies.
func controllerSays(t *testing.T, w *previewtest.World) (metav1.Condition, map[string]string) {
	t.Helper()
	p := w.Planner
	o, err := p.Observe(t.Context(), p.In.Objects.Accounts[0])
	if err != nil {
		t.Fatal(err)
	}
	p.In.ImportEntities(p.In.Objects.Accounts[0], o)
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(preview.Compute(p.In).Computed.Delta))
	acct := preview.Describe(preview.ObservedAccounts{o}, o.Key, clouds.LowererOf)
	in, err := p.Input(acct, o, store)
	if err != nil {
		t.Fatal(err)
	}
	would, err := forecast.Run(in.WithoutPlanned(), acct.Lowerer)
	if err != nil {
		t.Fatal(err)
	}
	report := status.Report{Account: o.Key, EnforcerKey: o.EnforcerKey, Entities: in.Entities, ModeReasons: acct.ModeReasons(),
		Result: plan.Compute(in, acct.Lowerer), Would: would.Rounds}

	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	selector := p.In.Objects.Selectors[0].DeepCopy()
	objects := []client.Object{selector, p.In.Objects.Accounts[0].DeepCopy()}
	for ref := range in.Entities {
		vm := &cloudv1alpha1.VirtualMachine{}
		vm.Namespace, vm.Name = ref.Namespace, strings.TrimPrefix(ref.Name, "virtualmachine-")
		vm.Labels = map[string]string{cloudv1alpha1.LabelCESName: selector.Name}
		objects = append(objects, vm)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).Build()
	h := &heard{names: map[string]string{}, messages: map[string]string{}}
	for _, s := range report.Result.Policies {
		h.names[s.UID] = s.PolicyRef.String()
	}
	writer := status.NewWriter(c, h, events.NewFakeRecorder(1000), clock.RealClock{}, logr.Discard())
	writer.Publish(t.Context(), report)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- writer.Start(ctx) }()
	defer func() { cancel(); <-done }()
	var out *metav1.Condition
	err = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		var live cloudv1alpha1.CloudEntitySelector
		err := c.Get(ctx, client.ObjectKeyFromObject(selector), &live)
		out = meta.FindStatusCondition(live.Status.Conditions, cloudv1alpha1.ConditionPlanned)
		return out != nil, err
	})
	if err != nil {
		t.Fatalf("seed %d: the selector does not say what is planned: %v", w.Seed, err)
	}
	h.Lock()
	defer h.Unlock()
	return *out, h.messages
}
