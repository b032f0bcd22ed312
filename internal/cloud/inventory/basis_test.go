package inventory

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestEditsOfTwoDoNotCancel: two objects that are edited one after the other between two passes
// have another sum than before, as a pass that does not see a difference loses both edits. The
// versions are near one another, as those that an API server gives are.
func TestEditsOfTwoDoNotCancel(t *testing.T) {
	of := func(n, at int) uint64 {
		return version(&v1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "vms", Name: fmt.Sprintf("virtualmachine-i-%017x", n), ResourceVersion: strconv.Itoa(at)}})
	}
	try := func(a, b, fromA, fromB, toA, toB int) {
		if of(a, fromA)+of(b, fromB) == of(a, toA)+of(b, toB) {
			t.Fatalf("objects %d and %d have the same sum at versions %d and %d, and at %d and %d", a, b, fromA, fromB, toA, toB)
		}
	}
	try(18, 7, 334, 334, 335, 337) // has been one with FNV
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		a, from := r.IntN(20), 300+r.IntN(500)
		b, other := (a+1+r.IntN(19))%20, from+r.IntN(15)
		to := max(from, other) + 1 + r.IntN(10)
		try(a, b, from, other, to, to+1+r.IntN(3))
	}
}
