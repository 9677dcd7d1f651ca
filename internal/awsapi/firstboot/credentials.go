package firstboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go"
)

// roleMetadata reads the credentials of the instance's role. They appear some
// seconds after the instance starts, so it retries after a missing entry.
type roleMetadata struct{ *Metadata }

// GetMetadata implements ec2rolecreds.GetMetadataAPIClient.
func (r roleMetadata) GetMetadata(ctx context.Context, in *imds.GetMetadataInput, options ...func(*imds.Options)) (*imds.GetMetadataOutput, error) {
	return r.client.GetMetadata(ctx, in, append(options, func(o *imds.Options) {
		o.Retryer = r.retryer(func(err error) bool { return isMissing(err) || isMetadataRetryable(err) })
	})...)
}

// credentials gets the credentials for the following requests. It retries when the
// role cannot be assumed yet.
func (n *Node) credentials(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		_, err := n.config.Credentials.Retrieve(ctx)
		var refused *smithy.GenericAPIError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("getting the node's credentials: %w (last: %w)", context.Cause(ctx), err)
		case !errors.As(err, &refused) || attempt >= n.metadata.Attempts:
			return fmt.Errorf("getting the node's credentials: %w; the instance needs an instance profile with the node's role", err)
		}
		tell(n.Log, attempt, n.metadata.Attempts, "the role's credentials", refused)
		if err := pause(ctx, min(firstPause<<min(attempt-1, 5), n.metadata.longest)); err != nil {
			return fmt.Errorf("getting the node's credentials: %w (last: %w)", err, refused)
		}
	}
}
