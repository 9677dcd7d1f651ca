package firstboot

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// tokenPrefix marks tokens for EKS's authenticator.
	tokenPrefix = "k8s-aws-v1."
	// clusterHeader is signed, so that a token is valid for one cluster only.
	clusterHeader = "x-k8s-aws-id"
	// tokenLife is how long a token is used: one minute less than the 15 minutes
	// that the authenticator accepts.
	tokenLife = 14 * time.Minute
)

// Token returns a token that proves the node's identity to a cluster. The token is
// a signed address at which STS would return the identity. The function sends no
// request; the authenticator calls STS. Source:
// https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster.
func (n *Node) Token(ctx context.Context, region, cluster string) (token string, expires time.Time, err error) {
	if err := n.credentials(ctx); err != nil {
		return "", time.Time{}, err
	}
	now := time.Now()
	presign := sts.NewPresignClient(sts.NewFromConfig(n.config, func(o *sts.Options) { o.Region = region }))
	signed, err := presign.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, sts.WithPresignClientFromClientOptions(
		sts.WithAPIOptions(smithyhttp.SetHeaderValue(clusterHeader, cluster), smithyhttp.SetHeaderValue("X-Amz-Expires", "60"))))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("signing the token: %w", err)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed.URL)), now.Add(tokenLife), nil
}
