package agents

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestDeadAgent: of an agent that says nothing any more its info, the policies, the metrics and the
// VM that it is in tell so, by the controller's clock; and what it says next counts again.
func TestDeadAgent(t *testing.T) {
	ctx, start := context.Background(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clk := testclock.NewFakeClock(start)
	ahead := time.Hour // by which the clock of the host is wrong
	info := &antreav1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "virtualmachine-i-1", Annotations: map[string]string{cloudv1.AnnotationKernel: "6.1.0"}}, Version: "v1",
		NodeRef:         antreav1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "shop", Name: "virtualmachine-i-1"},
		AgentConditions: []antreav1beta1.AgentCondition{{Type: antreav1beta1.AgentHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(start.Add(ahead))}}}
	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "i-1"}, Status: cloudv1.VirtualMachineStatus{Agented: true}}
	scheme := runtime.NewScheme()
	if err := errors.Join(cloudv1.AddToScheme(scheme), antreav1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(info, vm).WithStatusSubresource(vm).Build()
	var silent map[string]time.Time
	w := NewWatch(c, clk, logr.Discard(), true, func(s map[string]time.Time) { silent = s })
	// see hears of the info as the API has it, and returns it with the agent that the VM shows.
	see := func() (*antreav1beta1.AntreaAgentInfo, *cloudv1.VMAgent) {
		t.Helper()
		for range 2 { // it hears of what it wrote itself
			now := &antreav1beta1.AntreaAgentInfo{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(info), now); err != nil {
				t.Fatal(err)
			}
			w.read(now)
			w.look(ctx, true)
		}
		now, shown := &antreav1beta1.AntreaAgentInfo{}, &cloudv1.VirtualMachine{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(info), now); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(vm), shown); err != nil {
			t.Fatal(err)
		}
		return now, shown.Status.Agent
	}
	counts := func(well, dead string) {
		t.Helper()
		want := "# HELP nephele_agents Agents on hosts and Nodes, by whether they are well, not well, or silent for three minutes.\n# TYPE nephele_agents gauge\n" +
			"nephele_agents{state=\"Silent\"} " + dead + "\nnephele_agents{state=\"Unhealthy\"} 0\nnephele_agents{state=\"Well\"} " + well + "\n"
		if err := testutil.CollectAndCompare(w, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	_, shown := see()
	if len(silent) != 0 || shown == nil || shown.Health != metav1.ConditionTrue || shown.Kernel != "6.1.0" || shown.Version != "v1" {
		t.Errorf("well: %v, %+v", silent, shown)
	}
	counts("1", "0")
	clk.Step(3*time.Minute + time.Second)
	var now *antreav1beta1.AntreaAgentInfo
	now, shown = see()
	if cond := now.AgentConditions[0]; cond.Status != metav1.ConditionUnknown || cond.Reason != cloudv1.ReasonSilent || !cond.LastHeartbeatTime.Time.Equal(start.Add(ahead)) {
		t.Errorf("dead: %+v", cond)
	}
	if since := silent["shop/virtualmachine-i-1"]; len(silent) != 1 || !since.Equal(start.Add(ahead)) {
		t.Errorf("dead: %v", silent)
	}
	if shown == nil || shown.Health != metav1.ConditionUnknown || !strings.Contains(shown.Message, "not confirmed since") {
		t.Errorf("dead: %+v", shown)
	}
	counts("0", "1")
	now.AgentConditions[0] = antreav1beta1.AgentCondition{Type: antreav1beta1.AgentHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(clk.Now().Add(ahead))}
	if err := c.Update(ctx, now); err != nil {
		t.Fatal(err)
	}
	if _, shown = see(); len(silent) != 0 || shown == nil || shown.Health != metav1.ConditionTrue || shown.Message != "" {
		t.Errorf("back: %v, %+v", silent, shown)
	}
	counts("1", "0")
	if err := c.Delete(ctx, now); err != nil {
		t.Fatal(err)
	}
	w.forget(now)
	w.look(ctx, true)
	if err := c.Get(ctx, client.ObjectKeyFromObject(vm), vm); err != nil || vm.Status.Agent != nil {
		t.Errorf("gone: %v, %+v", err, vm.Status.Agent)
	}
}
