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
	// tokenPrefix tells EKS's authenticator whose token it is.
	tokenPrefix = "k8s-aws-v1."
	// clusterHeader is signed, so that a token is good for one cluster only.
	clusterHeader = "x-k8s-aws-id"
	// tokenLife is how long the authenticator takes a token: a minute less than
	// the quarter of an hour that it allows.
	tokenLife = 14 * time.Minute
)

// Token proves to a cluster who the node is: a signed address at which STS
// would say it. Nobody is asked; the authenticator asks. Source:
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
