package apiserver

import (
	"errors"
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// create serves the creation of an object from a body that was weighed. The generic handler also
// notes which fields a client manages, at several times the cost of the object. Nothing that is
// created here is ever stored as an object, so no client manages any field.
func (d *door) create(w http.ResponseWriter, r *http.Request, b *body, raw []byte) {
	object, code, err := d.created(r, b, raw)
	if err != nil {
		responsewriters.ErrorNegotiated(err, d.codecs, b.kind.GroupVersion(), w, r)
		return
	}
	if status, is := object.(*metav1.Status); is && status.Code == 0 {
		status.Code = int32(code)
	}
	responsewriters.WriteObjectNegotiated(d.codecs, negotiation.DefaultEndpointRestrictions, b.kind.GroupVersion(), w, r, code, object, false)
}

func (d *door) created(r *http.Request, b *body, raw []byte) (runtime.Object, int, error) {
	ctx := r.Context()
	info, _ := request.RequestInfoFrom(ctx)
	options := &metav1.CreateOptions{}
	if err := metainternal.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, options); err != nil {
		return nil, 0, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateCreateOptions(options); len(errs) > 0 {
		return nil, 0, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "CreateOptions"}, "", errs)
	}
	object, err := d.decode(r, b, raw, options.FieldValidation)
	if err != nil {
		return nil, 0, err
	}
	if m, err := meta.Accessor(object); err == nil {
		rest.WipeObjectMetaSystemFields(m)
		m.SetManagedFields(nil)
		if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(info.Namespace, m); err != nil {
			return nil, 0, err
		}
	}
	ctx = request.WithNamespace(ctx, info.Namespace)
	var out runtime.Object
	switch s := b.storage.(type) {
	case rest.NamedCreater:
		out, err = s.Create(ctx, info.Name, object, rest.ValidateAllObjectFunc, options)
	case rest.Creater:
		out, err = s.Create(ctx, object, rest.ValidateAllObjectFunc, options)
	default:
		err = apierrors.NewInternalError(fmt.Errorf("nothing is created by a %T", s))
	}
	return out, http.StatusCreated, err
}

// decode reads a body that is of the expected kind.
func (d *door) decode(r *http.Request, b *body, raw []byte, validate string) (runtime.Object, error) {
	media := r.Header.Get("Content-Type")
	if media == "" {
		media = runtime.ContentTypeJSON
	} else if parsed, _, err := mime.ParseMediaType(media); err == nil {
		media = parsed
	}
	info, ok := runtime.SerializerInfoForMediaType(d.codecs.SupportedMediaTypes(), media)
	if !ok {
		return nil, unsupported(media)
	}
	serializer := info.StrictSerializer
	if validate == metav1.FieldValidationIgnore {
		serializer = info.Serializer
	}
	decoder := d.codecs.DecoderToVersion(serializer, schema.GroupVersion{Group: b.kind.Group, Version: runtime.APIVersionInternal})
	object, _, err := decoder.Decode(raw, &b.kind, b.storage.New())
	if strict, is := runtime.AsStrictDecodingError(err); is && object != nil && validate != metav1.FieldValidationStrict {
		for _, wrong := range strict.Errors() {
			warning.AddWarning(r.Context(), "", wrong.Error())
		}
		return object, nil
	}
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		err = apierrors.NewBadRequest(fmt.Sprintf("%s of %s: %v", b.kind.Kind, b.kind.GroupVersion(), err))
	}
	return object, err
}
