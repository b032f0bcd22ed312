package cli

import (
	"context"
	"strings"
	"testing"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// loaded is the state of the cloud that an estate describes.
func loaded(t *testing.T, path string) simaws.State {
	t.Helper()
	state, _, err := estate.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// simulated starts a cloud in a state, until the test ends.
func simulated(t *testing.T, state simaws.State, seed uint64) *sim.Server {
	t.Helper()
	server, err := sim.Start(t.Context(), sim.Options{State: state, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// awsOn is a simulated cloud as AWS.
func awsOn(t *testing.T, server *sim.Server) cloud.Provider {
	t.Helper()
	provider, err := aws.New(aws.Config{
		Credential: cloudv1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
		Region:     "us-west-2", Endpoint: server.URL(), UserAgent: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// plannerOf plans for manifests, all of whose accounts the provider serves.
func plannerOf(t *testing.T, provider cloud.Provider, manifests string) *preview.Planner {
	t.Helper()
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(manifests))
	if err != nil || len(in.Refused) > 0 {
		t.Fatalf("%v, refused %v\n%s", err, in.Refused, manifests)
	}
	return &preview.Planner{In: in, ClusterID: "test", Lowerers: controller.LowererOf,
		Open: func(context.Context, *cloudv1alpha1.CloudProviderAccount) (preview.Reader, error) {
			return provider, nil
		}}
}
