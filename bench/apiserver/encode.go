package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// encoder writes objects of one group and version in one media type.
type encoder struct {
	mediaType, watchType string
	info                 runtime.SerializerInfo
	gv                   schema.GroupVersion
}

// encoderFor chooses the media type that a client accepts; Protobuf only when it is asked for.
func encoderFor(accept string, gv schema.GroupVersion) (*encoder, error) {
	mediaType := runtime.ContentTypeJSON
	if strings.HasPrefix(accept, runtime.ContentTypeProtobuf) {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok || info.StreamSerializer == nil {
		return nil, fmt.Errorf("apiserver: no serializer for %s", mediaType)
	}
	e := &encoder{mediaType: mediaType, watchType: mediaType, info: info, gv: gv}
	if mediaType == runtime.ContentTypeProtobuf {
		e.watchType += ";stream=watch"
	}
	return e, nil
}

func (e *encoder) encode(obj runtime.Object, w io.Writer) error {
	return scheme.Codecs.EncoderForVersion(e.info.Serializer, e.gv).Encode(obj, w)
}

// stream writes watch events one after another.
type stream struct {
	e       *encoder
	frames  io.Writer
	object  runtime.Encoder
	status  runtime.Encoder
	wrapper runtime.Encoder
	buf     bytes.Buffer
}

func (e *encoder) stream(w io.Writer) *stream {
	ss := e.info.StreamSerializer
	return &stream{e: e, frames: ss.Framer.NewFrameWriter(w), object: scheme.Codecs.EncoderForVersion(e.info.Serializer, e.gv),
		status:  scheme.Codecs.EncoderForVersion(e.info.Serializer, schema.GroupVersion{Version: "v1"}),
		wrapper: scheme.Codecs.EncoderForVersion(ss.Serializer, e.gv)}
}

func (s *stream) send(typ watch.EventType, obj runtime.Object) error {
	s.buf.Reset()
	enc := s.object
	if typ == watch.Error {
		enc = s.status
	}
	if err := enc.Encode(obj, &s.buf); err != nil {
		return fmt.Errorf("apiserver: encode: %w", err)
	}
	ev := &metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: bytes.Clone(s.buf.Bytes())}}
	s.buf.Reset()
	if err := s.wrapper.Encode(ev, &s.buf); err != nil {
		return fmt.Errorf("apiserver: encode an event: %w", err)
	}
	_, err := s.frames.Write(s.buf.Bytes())
	return err
}

// newObject is an empty object of a kind.
func newObject(k kind) (runtime.Object, error) { return scheme.Scheme.New(k.GroupVersionKind) }
