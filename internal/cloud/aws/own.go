package aws

import (
	"context"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/nephele-io/nephele/internal/cloud/aws/event"
)

// remember notes every call that changes something, and its answer.
func (p *Provider) remember(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	name := awsmiddleware.GetOperationName(ctx)
	if !event.Changes(name) {
		return next.HandleFinalize(ctx, in)
	}
	end := p.own.Send(awsmiddleware.GetRegion(ctx), name)
	out, metadata, err := next.HandleFinalize(ctx, in)
	id := ""
	if err == nil {
		id, _ = awsmiddleware.GetRequestIDMetadata(metadata)
	}
	end(id)
	return out, metadata, err
}
