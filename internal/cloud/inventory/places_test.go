package inventory

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestSlowNamespace: accounts of one namespace whose endpoints do not answer take no more than its
// share of the places. Further ones ask again, accounts of other namespaces are read, and there is
// room again as soon as one has ended.
func TestSlowNamespace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.inv.places.most = 2
	slow := make(chan struct{})
	l.gate = map[string]chan struct{}{ireland: slow}
	l.create(l.secret(goodCreds), l.cpa(oregon))
	var ended sync.WaitGroup
	keys := make([]types.NamespacedName, 3)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: "slow", Name: fmt.Sprint("acc-", i)}
		secret, cpa := l.secret(goodCreds), l.cpa(ireland)
		secret.Namespace, secret.Name = "slow", fmt.Sprint("aws-", i)
		cpa.Namespace, cpa.Name = keys[i].Namespace, keys[i].Name
		cpa.Spec.AWSConfig.SecretRef.Namespace, cpa.Spec.AWSConfig.SecretRef.Name = secret.Namespace, secret.Name
		l.create(secret, cpa)
	}
	taken := func() int {
		l.inv.places.mu.Lock()
		defer l.inv.places.mu.Unlock()
		return l.inv.places.taken["slow"]
	}
	for i, key := range keys[:2] {
		ended.Go(func() {
			if _, err := l.inv.Reconcile(t.Context(), request(key)); err != nil {
				t.Error(err)
			}
		})
		for end := time.Now().Add(time.Minute); taken() <= i; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it never took its place")
			}
		}
	}
	result, err := l.inv.Reconcile(t.Context(), request(keys[2]))
	if err != nil || result.RequeueAfter != placeWait || l.inv.Regions("slow/acc-2") != nil {
		t.Errorf("the third of the slow ones: %+v, %v", result, err)
	}
	l.reconcile()
	l.wantAccount("True OK", "True OK", "True OK", "")
	close(slow)
	ended.Wait()
	if result, err = l.inv.Reconcile(t.Context(), request(keys[2])); err != nil || result.RequeueAfter == placeWait {
		t.Errorf("when there is room again: %+v, %v", result, err)
	}
	if n := taken(); n != 0 {
		t.Errorf("%d places are not given back", n)
	}
}
