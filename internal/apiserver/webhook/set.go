package webhook

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// spread says what is wrong with a policy for clusters of the set, unless it was stored so before.
func (decode decodePolicy) spread(q *question, given *storedPolicy) []policy.FieldError {
	selector, is := convert.Spread(&given.meta)
	if !is || given.meta.DeletionTimestamp != nil {
		return nil
	}
	if q.operation == admissionv1.Update {
		if old, err := decode(q.old); err == nil {
			before, was := convert.Spread(&old.meta)
			if was && before == selector && equality.Semantic.DeepEqual(old.spec, given.spec) {
				return nil
			}
		}
	}
	return peers.Check(selector, &given.policy)
}
