package inventory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// TestPartIsWhole changes cloud and objects at random. After each pass, which looks at what has
// changed only, an inventory that remembers nothing looks at everything and finds nothing to write.
func TestPartIsWhole(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	l := newFeedLab(t)
	named := l.ces("db", "named", v1alpha1.VirtualMachineSelector{TagMatch: []v1alpha1.TagMatch{{Key: "role", Values: []string{"db"}}}})
	named.Spec.Mode = v1alpha1.ModePlan // not heeded where web selects too
	l.create(named)
	l.listen()
	l.reconcile()
	rnd := rand.New(rand.NewPCG(seed, 1))
	mine := l.inv
	for step := range 40 {
		what := l.randomChange(rnd)
		if strings.Contains(what, "by hand") || strings.Contains(what, "user") {
			l.inv.touch(accountKey) // as the watch on the objects would
		}
		l.follow()
		if rnd.IntN(4) == 0 {
			l.advance(time.Minute)
			l.reconcile()
		}
		l.takeWrites()
		want := l.account().Status.Regions
		l.restart(nil)
		l.reconcile()
		if got := l.takeWrites(); len(got) != 0 {
			t.Fatalf("seed %d, step %d: after %s a restart writes %q", seed, step, what, got)
		}
		if got := l.account().Status.Regions; fmt.Sprint(got[0].VMs, got[0].Vpcs) != fmt.Sprint(want[0].VMs, want[0].Vpcs) {
			t.Fatalf("seed %d, step %d: after %s %+v; a restart says %+v", seed, step, what, want, got)
		}
		if got, want := l.inv.Entities("clouds/acc"), mine.Entities("clouds/acc"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d, step %d: after %s entities %v; a restart says %v", seed, step, what, want, got)
		}
		l.inv = mine
	}
}

// randomChange changes something in the cloud, or an object of ours.
func (l *lab) randomChange(rnd *rand.Rand) string {
	l.Helper()
	r := l.region(oregon)
	vms, err := r.Instances()
	if err != nil {
		l.Fatal(err)
	}
	vms = slices.DeleteFunc(vms, func(i aws.Instance) bool { return i.State == aws.Terminated })
	id := vms[rnd.IntN(len(vms))].ID
	switch rnd.IntN(8) {
	case 0:
		if len(vms) > 12 {
			return "nothing"
		}
		if _, err := r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-00000000", MinCount: 1, MaxCount: 2, SubnetID: l.subnet(),
			Tags: map[string]aws.Tags{"instance": {"role": []string{"db", "web"}[rnd.IntN(2)]}}}); err != nil {
			return "a refused launch" // the subnet is full
		}
		return "a launch"
	case 1:
		if len(vms) < 5 {
			return "nothing"
		}
		if _, err := r.InstanceCalls().TerminateInstances([]string{id}); err != nil {
			l.Fatal(err)
		}
		return "the end of " + id
	case 2, 3:
		value := []string{"db", "web", "not legal"}[rnd.IntN(3)]
		if err := r.CreateTags([]string{id}, []aws.Tag{{Key: "role", Value: value}}); err != nil {
			l.Fatal(err)
		}
		return "role " + value + " of " + id
	case 4:
		l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) {
			s.ReleaseNamespaces = [][]string{nil, {"web"}, {"db"}, {"db", "web"}}[rnd.IntN(4)]
			s.AllowedNamespaces = []*v1alpha1.NamespaceGrant{nil, nil, {Names: []string{"web"}}, {Names: []string{"db"}}}[rnd.IntN(4)]
			s.UserTags = []v1alpha1.UserTags{"", v1alpha1.UserTagsSeparate, v1alpha1.UserTagsMerge}[rnd.IntN(3)]
		})
		l.reconcile()
		return "the account's word"
	case 5:
		names := l.vms()
		if len(names) == 0 {
			return "nothing"
		}
		namespace, name, _ := strings.Cut(names[rnd.IntN(len(names))], "/")
		vm := get(l, &v1alpha1.VirtualMachine{}, namespace, name)
		if _, broken := vm.Annotations[v1alpha1.AnnotationBreakGlass]; broken {
			delete(vm.Annotations, v1alpha1.AnnotationBreakGlass)
		} else {
			vm.Annotations[v1alpha1.AnnotationBreakGlass] = "fire"
		}
		l.update(vm)
		return "a glass by hand of " + client.ObjectKeyFromObject(vm).String()
	case 6:
		names := l.entities()
		if len(names) == 0 {
			return "nothing"
		}
		namespace, name, _ := strings.Cut(names[rnd.IntN(len(names))], "/")
		ee := get(l, &antreav1alpha2.ExternalEntity{}, namespace, name)
		if rnd.IntN(2) == 0 {
			l.delete(ee)
			return "an entity deleted by hand"
		}
		ee.Labels[v1alpha1.LabelCloudRegion] = "mars-1"
		l.update(ee)
		return "an entity edited by hand"
	default:
		names := l.vms()
		if len(names) == 0 {
			return "nothing"
		}
		namespace, name, _ := strings.Cut(names[rnd.IntN(len(names))], "/")
		vm := get(l, &v1alpha1.VirtualMachine{}, namespace, name)
		vm.Spec.Tags = map[string]string{"extra": fmt.Sprint(rnd.IntN(100))}
		l.update(vm)
		return "a user's tag on " + client.ObjectKeyFromObject(vm).String()
	}
}

// TestNothingChanged: passes that find everything as they left it neither write nor compute.
func TestNothingChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	l.takeWrites()
	basis := func() *basis { return l.inv.lookup("clouds/acc").basis }
	first, _ := l.inv.Latest("clouds/acc", oregon)
	kept := basis()
	if kept == nil {
		t.Fatal("the first pass left no basis")
	}
	l.advance(time.Minute)
	l.reconcile()
	if got := l.takeWrites(); len(got) != 0 || basis() != kept {
		t.Errorf("writes %q, basis kept %t", got, basis() == kept)
	}
	second, _ := l.inv.Latest("clouds/acc", oregon)
	if !second.ObservedAt.After(first.ObservedAt) || &second.VMs[0] != &first.VMs[0] {
		t.Error("a snapshot that shows the same does not keep the parts of the last, at a new time")
	}
	l.retag("x")
	l.advance(time.Minute)
	l.reconcile()
	l.want("writes", l.takeWrites(), "patch web/"+vm1, "patch web/virtualmachine-"+vm1, "update status web/"+vm1)
	if third, _ := l.inv.Latest("clouds/acc", oregon); &third.VMs[0] == &second.VMs[0] {
		t.Error("a change went unnoticed")
	}
}
