package sign

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Where cosign looks for the signature of a layer, and what such a layer is.
const (
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signingType         = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
)

// Image signs an image in a registry and pushes the signature beside it, where cosign looks for it.
func (k *Key) Image(ctx context.Context, repository name.Repository, digest v1.Hash, o ...remote.Option) error {
	claim, err := imageClaim(repository.Name(), digest.String())
	if err != nil {
		return err
	}
	signature, err := k.Blob(claim)
	if err != nil {
		return err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	signed, err := mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(claim, signingType), MediaType: signingType, Annotations: map[string]string{signatureAnnotation: Base64(signature)},
	})
	if err != nil {
		return err
	}
	to := repository.Tag(strings.Replace(digest.String(), ":", "-", 1) + ".sig")
	if err := remote.Write(to, signed, append(o, remote.WithContext(ctx))...); err != nil {
		return fmt.Errorf("push %s: %w", to, err)
	}
	return nil
}
