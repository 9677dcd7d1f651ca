package firstboot

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// bounded makes an SDK client fail on a response of more than most bytes, because
// the clients read whole responses into memory.
func bounded(most int64) func(*middleware.Stack) error {
	read := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if r, ok := out.RawResponse.(*smithyhttp.Response); ok && r.Body != nil {
			r.Body = &boundedBody{ReadCloser: r.Body, most: most, left: most}
		}
		return out, metadata, err
	}
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Bounded", read), middleware.After)
	}
}

// boundedBody fails when it would return more bytes than allowed.
type boundedBody struct {
	io.ReadCloser
	most, left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	return n, err
}
