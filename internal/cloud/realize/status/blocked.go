package status

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// reportBlocked tells, once for each interface, that the cloud refuses to change it.
func (s *Writer) reportBlocked(ctx context.Context, a *accountStatus, r Report) error {
	told := a.told.blocked
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
		s.tellAccount(account, "InterfaceRefused", "the cloud refuses to change interfaces, which are left alone for a while: "+BlockedText(fresh))
	}
	a.told.blocked = r.Blocked
	return nil
}

// BlockedText names interfaces that the cloud refuses to change, with its words; empty if there are
// none.
func BlockedText(blocked map[plan.InterfaceKey]string) string {
	var out []string
	for key, why := range blocked {
		out = append(out, cloud.ShortIDs(fmt.Sprintf("%s/%s: %s", key.Region, key.ID, why)))
	}
	slices.Sort(out)
	return strings.Join(cloud.Some(out, 3, "kubectl get vm -A"), "; ")
}
