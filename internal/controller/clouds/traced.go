package clouds

import (
	"context"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// traced begins the span of a call to a cloud that something traced brings about. It begins before
// the call is let through, so it has the time for which that was held back.
func (p Parts) traced(ctx context.Context, provider cloudv1.CloudProvider, owner, region, action string) (end func(cloud.Class)) {
	_, s := p.Tracer.Within(ctx, "call")
	s.Text("provider", string(provider))
	s.Text("owner", owner)
	s.Text("region", region)
	s.Text("action", action)
	return func(class cloud.Class) { s.End(string(class)) }
}
