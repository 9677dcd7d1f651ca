package join

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Identity is an instance as AWS knows it. A caller with the credentials of its
// role is that instance.
type Identity struct {
	ID             string
	Role           string
	PrivateDNSName string
	AccessKeyID    string
	SecretKey      string
	SessionToken   string
	// Admin is set for a person who administers the clusters, such as who made them.
	Admin bool
}

// Identities are all instances of the account. They may be added at any time.
type Identities struct {
	mutex sync.Mutex
	known map[string]Identity // by access key id
}

// Add adds an instance.
func (i *Identities) Add(one Identity) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.known == nil {
		i.known = map[string]Identity{}
	}
	i.known[one.AccessKeyID] = one
}

func (i *Identities) find(accessKeyID string) (Identity, bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	one, ok := i.known[accessKeyID]
	return one, ok
}

// Authenticator is the token webhook of one cluster's API server. A token is a
// presigned request to STS. It is valid for the cluster in the signed header
// x-k8s-aws-id. Source:
// https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
type Authenticator struct {
	Cluster    string
	Identities *Identities
	// Admits reports whether the cluster accepts a role's nodes, as its aws-auth or its
	// access entries say.
	Admits func(role string) bool
	// STS is an address of STS that is accepted as well as AWS's, such as a double's.
	STS string
	// Now is the time for checking signatures.
	Now func() time.Time

	mutex    sync.Mutex
	refusals []string
}

// Refusals returns the reasons for refused tokens, each once.
func (a *Authenticator) Refusals() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.refusals)
}

func (a *Authenticator) refused(err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !slices.Contains(a.refusals, err.Error()) {
		a.refusals = append(a.refusals, err.Error())
	}
}

// tokenReview has the fields of authentication.k8s.io/v1's TokenReview that the
// webhook uses.
type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token string `json:"token"`
	} `json:"spec"`
	Status struct {
		Authenticated bool   `json:"authenticated"`
		Error         string `json:"error,omitempty"`
		User          struct {
			Username string   `json:"username,omitempty"`
			UID      string   `json:"uid,omitempty"`
			Groups   []string `json:"groups,omitempty"`
		} `json:"user"`
	} `json:"status"`
}

// ServeHTTP implements http.Handler.
func (a *Authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review tokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	who, err := a.Verify(review.Spec.Token)
	review.Spec.Token = ""
	if err != nil {
		a.refused(err)
		review.Status.Error = err.Error()
	} else {
		review.Status.Authenticated = true
		review.Status.User.Username = "system:node:" + who.PrivateDNSName
		review.Status.User.UID = "aws-iam-authenticator:" + who.ID
		review.Status.User.Groups = []string{"system:bootstrappers", "system:nodes"}
		if who.Admin {
			review.Status.User.Username, review.Status.User.Groups = "admin", []string{"system:masters"}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server may have closed the connection
}

// tokenLife is how long EKS accepts a token.
const tokenLife = 15 * time.Minute

// Verify returns the instance that sent a token.
func (a *Authenticator) Verify(token string) (Identity, error) {
	var none Identity
	encoded, isOne := strings.CutPrefix(token, "k8s-aws-v1.")
	if !isOne {
		return none, errors.New("the token is not an EKS token")
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return none, fmt.Errorf("the token's encoding: %w", err)
	}
	address, err := url.Parse(string(text))
	if err != nil {
		return none, fmt.Errorf("the token's URL: %w", err)
	}
	q := address.Query()
	scope := strings.Split(q.Get("X-Amz-Credential"), "/")
	to := address.Scheme + "://" + address.Host + address.Path
	switch {
	case len(scope) != 5 || to != "https://sts."+scope[2]+".amazonaws.com/" && to != a.STS:
		return none, fmt.Errorf("the token is for %s, must be for STS", to)
	case q.Get("Action") != "GetCallerIdentity":
		return none, fmt.Errorf("the token's action is %q, must be GetCallerIdentity", q.Get("Action"))
	case q.Get("X-Amz-SignedHeaders") != "host;x-k8s-aws-id":
		return none, fmt.Errorf("the token signs the headers %q, without a cluster", q.Get("X-Amz-SignedHeaders"))
	}
	signed, err := time.Parse("20060102T150405Z", q.Get("X-Amz-Date"))
	if err != nil {
		return none, fmt.Errorf("the token's time: %w", err)
	}
	if age := a.Now().Sub(signed); age > tokenLife || age < -tokenLife {
		return none, fmt.Errorf("the token is %s old", age.Round(time.Second))
	}
	who, known := a.Identities.find(scope[0])
	if !known || q.Get("X-Amz-Security-Token") != who.SessionToken {
		return none, fmt.Errorf("the token's credentials %q belong to no instance", scope[0])
	}
	want, err := a.sign(address, who, scope[2], signed)
	if err != nil {
		return none, fmt.Errorf("signing as %s: %w", who.ID, err)
	}
	if want != q.Get("X-Amz-Signature") {
		return none, fmt.Errorf("the token of %s is not signed for the cluster %s", who.ID, a.Cluster)
	}
	if !who.Admin && !a.Admits(who.Role) {
		return none, fmt.Errorf("the role %s of %s is not mapped in the cluster %s", who.Role, who.ID, a.Cluster)
	}
	return who, nil
}

// sign returns the AWS SDK's signature of the same request for this cluster.
func (a *Authenticator) sign(address *url.URL, who Identity, region string, at time.Time) (string, error) {
	q := address.Query()
	for name := range q {
		if strings.HasPrefix(name, "X-Amz-") && name != "X-Amz-Expires" {
			q.Del(name)
		}
	}
	request, err := http.NewRequest(http.MethodGet, "https://"+address.Host+"/?"+q.Encode(), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("x-k8s-aws-id", a.Cluster)
	credentials := aws.Credentials{AccessKeyID: who.AccessKeyID, SecretAccessKey: who.SecretKey, SessionToken: who.SessionToken}
	nothing := fmt.Sprintf("%x", sha256.Sum256(nil))
	presigned, _, err := v4.NewSigner().PresignHTTP(context.Background(), credentials, request, nothing, "sts", region, at)
	if err != nil {
		return "", err
	}
	parsed, err := url.Parse(presigned)
	if err != nil {
		return "", err
	}
	return parsed.Query().Get("X-Amz-Signature"), nil
}
