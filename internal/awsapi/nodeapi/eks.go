package nodeapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
)

// Cluster is what a node must know about its cluster.
type Cluster struct {
	Name, ID, Endpoint string
	// CA is PEM.
	CA                           []byte
	IPv4CIDR, IPv6CIDR, IPFamily string
	Outpost                      bool
}

// DescribeCluster asks EKS, and asks again while the cluster is being made, for
// as long as ctx allows.
func (c *Client) DescribeCluster(ctx context.Context, name string) (Cluster, error) {
	for wait := 2 * c.Wait; ; wait = min(2*wait, 30*time.Second) {
		cluster, status, err := c.describe(ctx, name)
		if err != nil {
			return Cluster{}, fmt.Errorf("eks:DescribeCluster: %w", err)
		}
		switch status {
		case "ACTIVE", "UPDATING":
			return cluster, nil
		case "CREATING", "PENDING":
		default:
			return Cluster{}, fmt.Errorf("the cluster %s is %s", name, status)
		}
		if cause := pause(ctx, wait); cause != nil {
			return Cluster{}, fmt.Errorf("the cluster %s is still %s: %w", name, status, cause)
		}
	}
}

func (c *Client) describe(ctx context.Context, name string) (cluster Cluster, status string, err error) {
	body, err := c.call(ctx, request{service: "eks", method: http.MethodGet, path: "/clusters/" + url.PathEscape(name), parse: jsonError})
	if err != nil {
		return cluster, "", err
	}
	var answer struct {
		Cluster struct {
			Name, ID, Endpoint, Status string
			CertificateAuthority       struct{ Data string }
			KubernetesNetworkConfig    struct{ ServiceIpv4Cidr, ServiceIpv6Cidr, IPFamily string }
			OutpostConfig              struct{ OutpostArns []string }
		}
	}
	if err := strictjson.ReadKnown(body, &answer); err != nil {
		return cluster, "", fmt.Errorf("reading the answer: %w", err)
	}
	a := answer.Cluster
	ca, err := base64.StdEncoding.DecodeString(a.CertificateAuthority.Data)
	if err != nil {
		return cluster, "", fmt.Errorf("reading the certificate authority: %w", err)
	}
	if (a.Status == "ACTIVE" || a.Status == "UPDATING") && (a.Endpoint == "" || len(ca) == 0) {
		return cluster, "", errors.New("the answer has no endpoint or no certificate authority")
	}
	return Cluster{
		Name: a.Name, ID: a.ID, Endpoint: a.Endpoint, CA: ca,
		IPv4CIDR: a.KubernetesNetworkConfig.ServiceIpv4Cidr, IPv6CIDR: a.KubernetesNetworkConfig.ServiceIpv6Cidr,
		IPFamily: a.KubernetesNetworkConfig.IPFamily, Outpost: len(a.OutpostConfig.OutpostArns) > 0,
	}, a.Status, nil
}

func jsonError(status int, header http.Header, body []byte) *Error {
	var answer struct{ Message string }
	// Without JSON it is a proxy's page: the status says enough.
	_ = json.Unmarshal(body, &answer)
	code, _, _ := strings.Cut(header.Get("X-Amzn-Errortype"), ":")
	return &Error{status, code, answer.Message}
}
