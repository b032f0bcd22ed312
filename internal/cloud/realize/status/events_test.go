package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestManyVMsAreSummedUp: of more VMs than one reads about, the account tells, and nothing is told
// twice.
func TestManyVMsAreSummedUp(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := cloudv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "shop"}}
	recorder := events.NewFakeRecorder(1000)
	s := NewWriter(fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).Build(), nil, recorder, clocktesting.NewFakeClock(metav1.Now().Time), logr.Discard())
	a := s.of(labAccount)
	take := func() (out []string) {
		for len(recorder.Events) > 0 {
			out = append(out, <-recorder.Events)
		}
		return out
	}
	after := []cloudv1.AppliedPolicy{
		{Name: "a", UID: "a", Generation: 1, Phase: cloudv1.PolicyPhaseRealized}, {Name: "b", UID: "b", Generation: 1, Phase: cloudv1.PolicyPhaseRealized},
		{Name: "c", UID: "c", Generation: 1, Phase: cloudv1.PolicyPhaseFailed, Message: "no room"},
	}
	tell := func(n int) []string {
		t.Helper()
		a.told.chorus = map[string]int{}
		for i := range n {
			vm, _ := subjectOf(&cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: fmt.Sprint("vm-", i), UID: types.UID(fmt.Sprint("uid-", i))}})
			s.tellPolicies(a, vm, nil, nil, after)
		}
		if err := s.sumUp(t.Context(), a, Report{Account: labNamespace + "/shop"}); err != nil {
			t.Fatal(err)
		}
		return take()
	}
	got := tell(mostTold + 7)
	if len(got) != 2*mostTold+2 {
		t.Fatalf("%d events; want two for each of %d VMs and two of the account", len(got), mostTold)
	}
	for _, want := range []string{"Warning PolicyFailed c: no room", "Normal PolicyRealized a, b are enforced on this VM"} {
		if got[0] != want && got[1] != want {
			t.Errorf("%q lack %q", got[:2], want)
		}
	}
	for _, e := range got[2*mostTold:] {
		if !strings.Contains(e, "on 7 VMs besides") {
			t.Errorf("the account says %q", e)
		}
	}
	after = after[:2]
	if again := tell(mostTold + 7); len(again) != 0 {
		t.Errorf("what was told, or summed up, is told again: %q", again)
	}
	after[0].Generation = 2
	if one := tell(1); len(one) != 1 || one[0] != "Normal PolicyRealized a is enforced on this VM" {
		t.Errorf("%q", one)
	}
}
