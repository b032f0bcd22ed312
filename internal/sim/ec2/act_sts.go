package ec2

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func getCallerIdentity(r *request) ([]wire.Element, error) {
	return []wire.Element{
		wire.Text("Arn", r.caller.ARN()),
		wire.Text("UserId", r.caller.UserID()),
		wire.Text("Account", r.caller.Account),
	}, nil
}

func assumeRole(r *request) ([]wire.Element, error) {
	in := aws.AssumeRoleInput{
		RoleARN:     r.params.String("RoleArn"),
		SessionName: r.params.String("RoleSessionName"),
		ExternalID:  r.params.String("ExternalId"),
	}
	for _, required := range []struct{ name, wire, value string }{
		{"roleArn", "RoleArn", in.RoleARN}, {"roleSessionName", "RoleSessionName", in.SessionName},
	} {
		if required.value == "" {
			return nil, validation("Value null at '%s' failed to satisfy constraint: Member must not be null", required.name)
		}
	}
	seconds, ok, err := r.params.Int("DurationSeconds")
	if err != nil {
		return nil, validation("'%s' is not a number of seconds", r.params.String("DurationSeconds"))
	}
	if ok && seconds <= 0 {
		return nil, validation("Value '%d' at 'durationSeconds' failed to satisfy constraint: "+
			"Member must have value greater than or equal to 900", seconds)
	}
	in.DurationSeconds = seconds
	if n := len(in.RoleARN); n < 20 || n > 2048 {
		return nil, validation("Value '%s' at 'roleArn' failed to satisfy constraint: "+
			"Member must have length between 20 and 2048", in.RoleARN)
	}
	if n := len(in.ExternalID); r.params.Has("ExternalId") && (n < 2 || n > 1224) {
		return nil, validation("Value '%s' at 'externalId' failed to satisfy constraint: "+
			"Member must have length between 2 and 1224", in.ExternalID)
	}
	session, err := r.world.AssumeRole(r.caller, in)
	if err != nil {
		return nil, err
	}
	return []wire.Element{
		wire.Node("Credentials",
			wire.Text("AccessKeyId", session.AccessKeyID),
			wire.Text("SecretAccessKey", session.Secret),
			wire.Text("SessionToken", session.SessionToken),
			wire.Time("Expiration", session.Expires)),
		wire.Node("AssumedRoleUser",
			wire.Text("Arn", session.ARN()),
			wire.Text("AssumedRoleId", session.UserID())),
		wire.Int("PackedPolicySize", 0),
	}, nil
}

func validation(format string, args ...any) error {
	return codec.Fail("ValidationError", "1 validation error detected: "+format, args...)
}
