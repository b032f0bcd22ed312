package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/sqs"
)

// newFeedLab is a lab whose account hears of events.
func newFeedLab(t *testing.T) *lab {
	t.Helper()
	l := newLabWith(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	l.direct = true
	cpa := l.cpa()
	cpa.Spec.AWSConfig.EventQueue = []v1alpha1.AWSEventQueue{{URL: l.server.URL() + l.queue().Path(), Region: oregon}}
	l.create(l.secret(goodCreds), cpa, l.ces("web", "all", wholeVPC(vpc1)))
	return l
}

func (l *lab) queue() sqs.Ref {
	for _, ref := range l.server.Queues().Refs() {
		if ref.Region == oregon {
			return ref
		}
	}
	l.Fatal("there is no queue")
	return sqs.Ref{}
}

// listen runs the feeds until the returned function is called. woken gets a token whenever a
// Reconcile is asked for.
func (l *lab) listen() (woken chan struct{}, stop func()) {
	woken = make(chan struct{}, 1000)
	l.inv.mu.Lock()
	l.inv.requeue = func(types.NamespacedName) { woken <- struct{}{} }
	l.inv.mu.Unlock()
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.inv.Start(ctx); err != nil {
			l.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	l.Cleanup(stop)
	return woken, stop
}

func (l *lab) eventually(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("it never came about that %s", what)
		}
	}
}

func (l *lab) drained() bool {
	visible, hidden, err := l.server.Queues().Depth(l.queue())
	return err == nil && visible+hidden == 0
}

// readings returns the filters of the readings of instances since a call of the journal: "" for a
// whole one.
func (l *lab) readings(after int) []string {
	var out []string
	for _, c := range l.server.Journal().Calls(after) {
		if c.Action == "DescribeInstances" {
			out = append(out, c.Params["Filter.1.Name"]+" "+c.Params["Filter.1.Value.1"])
		}
	}
	return out
}

// TestEventsAreFollowed: what an event names is read at once and alone; everything still is at the
// poll interval.
func TestEventsAreFollowed(t *testing.T) {
	t.Parallel()
	l := newFeedLab(t)
	woken, _ := l.listen()
	l.reconcile()
	l.eventually("the queue is read", func() bool {
		l.reconcile()
		return condition(l.account().Status.Conditions, v1alpha1.ConditionEventsReceived) == "True OK"
	})
	synced := l.account().Status.LastSyncTime
	for len(woken) > 0 {
		<-woken
	}
	l.takeWrites()
	l.advance(10 * time.Second)
	after := l.server.Journal().Total()
	l.retag("followed")
	<-woken
	l.eventually("the queue is empty", l.drained)
	if wait := l.reconcile(); wait != 50*time.Second {
		t.Errorf("next in %s; want the rest of the poll interval", wait)
	}
	l.want("readings", l.readings(after), "instance-id "+vm1)
	l.want("writes", l.takeWrites(), "patch web/"+vm1, "patch web/virtualmachine-"+vm1, "update status web/"+vm1)
	if ee := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+vm1); ee.Labels[v1alpha1.LabelTagPrefix+"n"] != "followed" {
		t.Errorf("labels %v", ee.Labels)
	}
	if st := l.account().Status; !st.LastSyncTime.Equal(synced) {
		t.Errorf("the region claims to be read whole at %s", st.LastSyncTime)
	}
	// A burst is one reading, after a pause.
	after = l.server.Journal().Total()
	for n := range 100 {
		l.retag(fmt.Sprint(n))
	}
	l.eventually("the queue is empty", l.drained)
	if wait := l.reconcile(); wait != hintPause {
		t.Errorf("next in %s; want %s", wait, hintPause)
	}
	l.advance(hintPause)
	l.reconcile()
	l.want("readings", l.readings(after), "instance-id "+vm1)
	// A VM that nobody has seen before appears, one that is terminated goes.
	res, err := l.region(oregon).InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-00000000", MinCount: 1, MaxCount: 1, SubnetID: l.subnet()})
	if err != nil {
		t.Fatal(err)
	}
	vm := res.Instances[0].ID
	l.follow()
	if !slices.Contains(l.vms(), "web/"+vm) || !slices.Contains(l.entities(), "web/virtualmachine-"+vm) {
		t.Errorf("VMs %v", l.vms())
	}
	if _, err := l.region(oregon).InstanceCalls().TerminateInstances([]string{vm}); err != nil {
		t.Fatal(err)
	}
	l.follow()
	if slices.Contains(l.vms(), "web/"+vm) {
		t.Errorf("VMs %v", l.vms())
	}
	for _, r := range l.readings(after) {
		if !strings.HasPrefix(r, "instance-id ") {
			t.Errorf("reading %q", r)
		}
	}
	// The whole truth comes at its time, without any event.
	l.advance(time.Minute)
	after = l.server.Journal().Total()
	l.reconcile()
	l.want("readings", l.readings(after), "vpc-id "+vpc1)
}

func (l *lab) subnet() string {
	l.Helper()
	subnets, err := l.region(oregon).Subnets()
	if err != nil {
		l.Fatal(err)
	}
	i := slices.IndexFunc(subnets, func(s aws.Subnet) bool { return s.VPCID == vpc1 })
	return subnets[i].ID
}

// follow lets what has happened be heard of and read.
func (l *lab) follow() {
	l.Helper()
	l.server.World().Settle()
	l.eventually("the queue is empty", l.drained)
	l.advance(hintPause)
	l.reconcile()
}

// TestEventsFail: hints that cannot be read are kept, and at last the region is read whole.
func TestEventsFail(t *testing.T) {
	t.Parallel()
	l := newFeedLab(t)
	l.reconcile()
	_, stop := l.listen()
	l.retag("one")
	l.eventually("the queue is empty", l.drained)
	l.server.Faults().Add(ec2.Fault{Action: "DescribeInstances", Code: "RequestLimitExceeded", Times: maxMisses})
	after := l.server.Journal().Total()
	for n := range maxMisses {
		l.advance(firstBackoff << n)
		l.reconcile()
	}
	l.wantAccount("True OK", "True OK", "True OK", "")
	l.reconcile()
	l.want("readings", l.readings(after), "instance-id "+vm1, "instance-id "+vm1, "instance-id "+vm1, "vpc-id "+vpc1)
	if vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1); vm.Status.Tags["n"] != "one" {
		t.Errorf("tags %v", vm.Status.Tags)
	}
	// A queue that is gone is said, and found again.
	if err := l.server.Queues().Delete(l.queue()); err != nil {
		t.Fatal(err)
	}
	wait := func(want string) {
		t.Helper()
		l.eventually("the condition is "+want, func() bool {
			l.reconcile()
			return condition(l.account().Status.Conditions, v1alpha1.ConditionEventsReceived) == want
		})
	}
	wait("False QueueNotFound")
	l.wantAccount("True OK", "True OK", "True OK", "")
	ref := sqs.Ref{Account: l.server.World().Accounts()[0].ID, Region: oregon, Name: "events"}
	if err := l.server.Queues().Create(ref, nil); err != nil {
		t.Fatal(err)
	}
	wait("True OK")
	// Without a queue there is no condition, and nobody listens any more.
	cpa := l.account()
	cpa.Spec.AWSConfig.EventQueue = nil
	l.update(cpa)
	l.reconcile()
	if got := condition(l.account().Status.Conditions, v1alpha1.ConditionEventsReceived); got != "" {
		t.Errorf("condition %q", got)
	}
	stop()
}

// TestHints: what changes lead to, without a cloud.
func TestHints(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	read := &cloud.Snapshot{}
	a := &account{regions: map[string]*region{oregon: {snapshot: read, next: now.Add(time.Hour)}, ireland: {next: now.Add(time.Hour)}}}
	if a.hint(cloud.Change{Region: "mars-1", IDs: []string{"i-1"}}) || !a.hint(cloud.Change{Region: oregon, IDs: []string{"i-1"}}) ||
		a.hint(cloud.Change{Region: oregon, IDs: []string{"i-2", "i-1"}}) {
		t.Error("only the first hint is news")
	}
	if jobs := a.due(now, false); len(jobs) != 1 || !slices.Equal(jobs[0].ids, []string{"i-1", "i-2"}) || jobs[0].since != read {
		t.Errorf("jobs %+v", jobs)
	}
	a.hint(cloud.Change{Region: ireland, IDs: []string{"i-3"}}) // never read
	if jobs := a.due(now, false); len(jobs) != 0 {
		t.Errorf("jobs %+v", jobs)
	}
	many := make([]string, maxHints+1)
	a.regions[oregon].calm = now.Add(time.Second)
	a.hint(cloud.Change{Region: oregon, IDs: many})
	if jobs := a.due(now, false); len(jobs) != 0 || a.wait(now, time.Minute) != time.Second {
		t.Errorf("jobs %+v", jobs)
	}
	a.hint(cloud.Change{Region: oregon, IDs: []string{"i-4"}})
	if jobs := a.due(now.Add(time.Second), false); len(jobs) != 1 || jobs[0].ids != nil {
		t.Errorf("jobs %+v", jobs)
	}
	a.hint(cloud.Change{Region: oregon})
	a.regions[oregon].failures = 1
	if jobs := a.due(now.Add(time.Minute), false); len(jobs) != 0 {
		t.Errorf("a failing region is read because of a hint: %+v", jobs)
	}
}

// TestAuthors: the last stranger by the cloud's clock counts, in whatever order events come, then
// the user of our credentials, and there is a bound.
func TestAuthors(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa())
	l.reconcile()
	a := l.inv.lookup("clouds/acc")
	note := func(who string, at time.Time, ours bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.feed.note(cloud.Change{Region: oregon, IDs: []string{"sg-1"}, Author: cloud.Author{Name: who, At: at, Ours: ours}}, now)
	}
	note("ourselves", now.Add(-2*time.Minute), true)
	if by, known := l.inv.ChangedBy("clouds/acc", oregon, "sg-1"); !known || by.Name != "ourselves" || !by.Ours {
		t.Errorf("nobody else is known: %+v, %t", by, known)
	}
	note("late", now.Add(-time.Minute), false)
	note("early", now.Add(-time.Hour), false)
	note("ourselves", now, true)
	note("", now, false)
	if by, known := l.inv.ChangedBy("clouds/acc", oregon, "sg-1"); !known || by.Name != "late" {
		t.Errorf("%+v, %t", by, known)
	}
	note("from the future", now.Add(100*24*time.Hour), false)
	if by, _ := l.inv.ChangedBy("clouds/acc", oregon, "sg-1"); by.Name != "from the future" || !by.At.Equal(now) {
		t.Errorf("%+v", by)
	}
	if _, known := l.inv.ChangedBy("clouds/acc", ireland, "sg-1"); known {
		t.Error("known elsewhere")
	}
	if _, known := l.inv.ChangedBy("nobody/at-all", oregon, "sg-1"); known {
		t.Error("known of nobody")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range 3 * maxAuthors {
		c := cloud.Change{Region: oregon, IDs: []string{fmt.Sprint("sg-", n)}, Author: cloud.Author{Name: "x", At: now.Add(time.Duration(n) * time.Millisecond)}}
		a.feed.note(c, now)
	}
	if n := len(a.feed.authors); n > maxAuthors || n < maxAuthors/4 {
		t.Errorf("%d authors are remembered", n)
	}
	if _, known := a.feed.authors[objectID{oregon, fmt.Sprint("sg-", 3*maxAuthors-1)}]; !known {
		t.Error("the latest is forgotten")
	}
}
