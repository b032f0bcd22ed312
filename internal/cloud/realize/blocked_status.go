package realize

import (
	"context"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// reportBlocked tells, once for each interface, that the cloud refuses to change it.
func (s *StatusWriter) reportBlocked(ctx context.Context, r Report) error {
	told := s.blocked[r.Account]
	fresh := map[plan.InterfaceKey]string{}
	for key, why := range r.Blocked {
		if told[key] != why {
			fresh[key] = why
		}
	}
	if len(fresh) > 0 {
		account, err := s.account(ctx, r)
		if err != nil {
			return err
		}
		s.tellAccount(account, "InterfaceRefused", "the cloud refuses to change interfaces, which are left alone for a while: "+blockedText(fresh))
	}
	s.blocked[r.Account] = r.Blocked
	return nil
}
