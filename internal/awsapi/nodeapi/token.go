package nodeapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	// tokenPrefix tells EKS's authenticator whose token it is.
	tokenPrefix = "k8s-aws-v1."
	// clusterHeader is signed, so that a token is good for one cluster only.
	clusterHeader = "x-k8s-aws-id"
	// TokenLife is how long the authenticator takes a token: a minute less than
	// the quarter of an hour that it allows.
	TokenLife = 14 * time.Minute
	// emptySum is the SHA-256 of nothing.
	emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// Token proves to a cluster who the node is: a signed address at which STS
// would say it. Nobody is asked; the authenticator asks. Source:
// https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster.
func (c *Client) Token(ctx context.Context, cluster string) (token string, expires time.Time, err error) {
	creds, err := c.Credentials(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	query := url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {"60"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Endpoints("sts", c.Region)[0]+"/?"+query.Encode(), nil)
	if err != nil {
		return "", time.Time{}, err
	}
	req.Header.Set(clusterHeader, cluster)
	now := c.Now()
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, creds.sdk(), req, emptySum, "sts", c.Region, now)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("signing the token: %w", err)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed)), now.Add(TokenLife), nil
}
