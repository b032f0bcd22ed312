package webhook

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// validateTier checks the creation, the change and the deletion of a tier.
func validateTier(ctx context.Context, s *states, q *question) answer {
	var now, old v1beta1.Tier
	for _, in := range []struct {
		raw  []byte
		into *v1beta1.Tier
	}{{q.object, &now}, {q.old, &old}} {
		if len(in.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(in.raw, in.into); err != nil {
			return unreadable(err)
		}
	}
	switch q.operation {
	case admissionv1.Create:
		return createTier(ctx, s, convert.Tier(&now))
	case admissionv1.Update:
		return answer{errs: admission.ValidateTierUpdate(convert.Tier(&old), convert.Tier(&now))}
	case admissionv1.Delete:
		return deleteTier(ctx, s, old.Name)
	}
	return answer{}
}

// createTier asks the API itself at once: there are few tiers, and two that have one priority, made
// at the same time, are not to be had apart later.
func createTier(ctx context.Context, s *states, t policy.Tier) answer {
	existing, err := s.live.Tiers(ctx)
	if err != nil {
		return answer{err: err}
	}
	return answer{errs: admission.ValidateNewTier(t, existing)}
}

func deleteTier(ctx context.Context, s *states, name string) answer {
	if errs := admission.ValidateTierDelete(name, nil); len(errs) > 0 {
		return answer{errs: errs}
	}
	return s.settled(func(state State) ([]policy.FieldError, error) {
		p, err := state.PolicyIn(ctx, name)
		if p == nil || err != nil {
			return nil, err
		}
		return admission.ValidateTierDelete(name, []policy.Policy{*p}), nil
	})
}
