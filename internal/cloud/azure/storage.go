package azure

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/nephele-io/nephele/internal/cloud"
)

// This file reads blobs: three calls, which need no client of that service.

const (
	storageVersion = "2023-11-03"
	storageScope   = "https://storage.azure.com/.default"
	callList       = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
	blobPage       = "1000"
	maxBlobPages   = 100
	longestBlob    = 1024
	// listingBytes bounds a page of a listing.
	listingBytes = 16 << 20
)

// storageHost is that of the blobs of a storage account.
var storageHost = regexp.MustCompile(`^[a-z0-9]{3,24}\.blob\.core\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)$`)

var (
	_ cloud.Storage      = (*Account)(nil)
	_ cloud.FolderLister = (*Account)(nil)
	_ cloud.Clocked      = (*Account)(nil)
)

// Ahead implements cloud.Clocked.
func (a *Account) Ahead() time.Duration { return time.Duration(a.ahead.Load()) }

// storage is the way to the blobs of one host.
type storage struct {
	pipeline runtime.Pipeline
}

// newStorage returns the way to a host. It is one of Azure, or of those that the operator allows
// for clouds that are described.
func (a *Account) newStorage(u *url.URL) (*storage, error) {
	if !storageHost.MatchString(u.Host) && a.cfg.Cloud == nil {
		return nil, &cloud.NotGrantedError{Message: fmt.Sprintf("%s is no host of blobs of Azure", u.Host)}
	}
	if a.cfg.Cloud != nil && a.cfg.Allowed != nil {
		if err := a.cfg.Allowed.Check(u); err != nil {
			return nil, &cloud.NotGrantedError{Err: err, Message: fmt.Sprintf("%s is not allowed: %v; the controller allows %s by --allowed-endpoints", u.Host, err, a.cfg.Allowed)}
		}
	}
	cfg := a.cfg
	cfg.Bounds.AnswerBytes = cloud.MostObjectBytes
	client, err := newClient(cfg, strings.ToLower(u.Host))
	if err != nil {
		return nil, err
	}
	options := a.options
	options.Transport = client
	return &storage{runtime.NewPipeline("nephele", "v1.0.0", runtime.PipelineOptions{
		PerRetry: []policy.Policy{runtime.NewBearerTokenPolicy(a.credential, []string{storageScope}, nil)},
	}, &options)}, nil
}

// enumeration is a page of a listing.
type enumeration struct {
	XMLName xml.Name `xml:"EnumerationResults"`
	Blobs   struct {
		Blob []struct {
			Name       string `xml:"Name"`
			Properties struct {
				LastModified string `xml:"Last-Modified"`
				Etag         string `xml:"Etag"`
				Size         int64  `xml:"Content-Length"`
			} `xml:"Properties"`
		} `xml:"Blob"`
		BlobPrefix []struct {
			Name string `xml:"Name"`
		} `xml:"BlobPrefix"`
	} `xml:"Blobs"`
	NextMarker string `xml:"NextMarker"`
}

// Objects implements cloud.Storage.
func (a *Account) Objects(ctx context.Context, at cloud.Bucket, prefix, page string) ([]cloud.StoredObject, string, error) {
	list, err := a.listBlobs(ctx, at, prefix, "", page)
	if err != nil {
		return nil, "", err
	}
	out := make([]cloud.StoredObject, 0, len(list.Blobs.Blob))
	for _, b := range list.Blobs.Blob {
		changed, err := time.Parse(time.RFC1123, b.Properties.LastModified)
		if err != nil || len(b.Name) > longestBlob || !strings.HasPrefix(b.Name, prefix) || b.Properties.Size < 0 {
			return nil, "", &cloud.Error{Class: cloud.Unavailable, Call: callList, Err: fmt.Errorf("the listing has %.100q, which was not asked for", b.Name)}
		}
		out = append(out, cloud.StoredObject{Name: b.Name, Size: b.Properties.Size, Changed: changed.UTC(), Tag: b.Properties.Etag})
	}
	return out, list.NextMarker, nil
}

// Folders implements cloud.FolderLister.
func (a *Account) Folders(ctx context.Context, at cloud.Bucket, prefix string) (out []string, err error) {
	for page, pages := "", 0; page != "" || pages == 0; pages++ {
		if pages == maxBlobPages {
			return nil, &cloud.Error{Class: cloud.Terminal, Call: callList, Err: &cloud.BoundError{What: "the listing takes", Bound: maxBlobPages, Unit: "pages"}}
		}
		list, err := a.listBlobs(ctx, at, prefix, "/", page)
		if err != nil {
			return nil, err
		}
		for _, b := range list.Blobs.BlobPrefix {
			if len(b.Name) > longestBlob || !strings.HasPrefix(b.Name, prefix) || b.Name == prefix {
				return nil, &cloud.Error{Class: cloud.Unavailable, Call: callList, Err: fmt.Errorf("the listing has %.100q, which was not asked for", b.Name)}
			}
			out = append(out, b.Name)
		}
		page = list.NextMarker
	}
	return out, nil
}

// Object implements cloud.Storage.
func (a *Account) Object(ctx context.Context, at cloud.Bucket, name string) (io.ReadCloser, error) {
	return a.getBlob(ctx, at, name, nil)
}

func (a *Account) listBlobs(ctx context.Context, at cloud.Bucket, prefix, delimiter, marker string) (*enumeration, error) {
	q := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}, "maxresults": {blobPage}}
	if delimiter != "" {
		q.Set("delimiter", delimiter)
	}
	if marker != "" {
		q.Set("marker", marker)
	}
	body, err := a.getBlob(ctx, at, "", q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var page enumeration
	if err := xml.NewDecoder(io.LimitReader(body, listingBytes)).Decode(&page); err != nil {
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: callList, Err: fmt.Errorf("the listing cannot be read: %w", err)}
	}
	return &page, nil
}

// getBlob asks for a blob of a container, or with a query for something about the container.
func (a *Account) getBlob(ctx context.Context, at cloud.Bucket, name string, q url.Values) (io.ReadCloser, error) {
	u, err := url.Parse(at.Name)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") == "" {
		return nil, &cloud.Error{Class: cloud.Terminal, Call: callList, Err: fmt.Errorf("%q: want https://ACCOUNT.blob.core.windows.net/CONTAINER", at.Name)}
	}
	s, err := a.storageOf(u)
	if err != nil {
		return nil, classify(callList, err, a.cfg.Now())
	}
	target := *u
	target.Path = "/" + strings.Trim(u.Path, "/")
	if name != "" {
		target.Path += "/" + name
	}
	target.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	r, err := runtime.NewRequest(ctx, http.MethodGet, target.String())
	if err != nil {
		return nil, classify(callList, err, a.cfg.Now())
	}
	r.Raw().Header.Set("x-ms-version", storageVersion)
	runtime.SkipBodyDownload(r)
	resp, err := s.pipeline.Do(r)
	if err != nil {
		return nil, classify(callList, err, a.cfg.Now())
	}
	if by, ok := cloud.AheadBy(resp.Header.Get("Date"), a.cfg.Now()); ok {
		a.ahead.Store(int64(by))
	}
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		defer func() { _ = resp.Body.Close() }()
		return nil, classify(callList, runtime.NewResponseError(resp), a.cfg.Now())
	}
	return resp.Body, nil
}

// storageOf returns the way to a host, which is made once.
func (a *Account) storageOf(u *url.URL) (*storage, error) {
	a.storages.mu.Lock()
	defer a.storages.mu.Unlock()
	s := a.storages.of[u.Host]
	if s == nil {
		var err error
		if s, err = a.newStorage(u); err != nil {
			return nil, err
		}
		if a.storages.of == nil {
			a.storages.of = map[string]*storage{}
		}
		a.storages.of[u.Host] = s
	}
	return s, nil
}
