package awsapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// ecrRegistry is the parsed name of a private ECR registry, such as
// 123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com.
type ecrRegistry struct {
	region          string
	fips, dualStack bool
}

// ecrDomains are the domains of AWS' partitions, and those that also serve IPv6.
// Sources: https://docs.aws.amazon.com/general/latest/gr/ecr.html,
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-requests.html, and
// https://github.com/awslabs/amazon-ecr-credential-helper.
var ecrDomains = map[bool][]string{
	false: {"amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "c2s.ic.gov", "sc2s.sgov.gov", "cloud.adc-e.uk",
		"csp.hci.ic.gov"},
	true: {"on.aws", "on.amazonwebservices.com.cn"},
}

// parseECR parses a registry's name. The result is false for other registries,
// which must not get AWS credentials.
func parseECR(host string) (ecrRegistry, bool) {
	m := ecrHost().FindStringSubmatch(host)
	if m == nil || !slices.Contains(ecrDomains[m[1] == "-"], m[4]) {
		return ecrRegistry{}, false
	}
	return ecrRegistry{region: m[3], fips: m[2] != "", dualStack: m[1] == "-"}, true
}

var ecrHost = show.Regexp(`^[0-9]{12}\.dkr([.-])ecr(-fips)?\.([^.]+)\.(.+)$`)

// RegistryLogin returns a function that gets user and password for a private ECR
// registry, in the region of its name. It gets them once for each registry: they
// are valid for 12 hours. For other registries it returns false. The options'
// region has no effect.
func RegistryLogin(o Options) func(ctx context.Context, host string) (user, password string, ok bool, err error) {
	var mu sync.Mutex
	known := map[string][2]string{}
	return func(ctx context.Context, host string) (user, password string, ok bool, err error) {
		r, ok := parseECR(host)
		if !ok {
			return "", "", false, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if got, ok := known[host]; ok {
			return got[0], got[1], true, nil
		}
		if user, password, err = o.login(ctx, r, "logging in to "+host); err == nil {
			known[host] = [2]string{user, password}
		}
		return user, password, true, err
	}
}

// login gets the credentials that `docker login` would need.
func (o Options) login(ctx context.Context, r ecrRegistry, doing string) (user, password string, err error) {
	o.Region = r.region
	c, err := o.config(ctx)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", doing, err)
	}
	out, err := ecr.NewFromConfig(c, func(e *ecr.Options) {
		if r.dualStack {
			e.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
		}
		if r.fips {
			e.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
		}
	}).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return "", "", explain(doing, err)
	}
	if len(out.AuthorizationData) == 0 {
		return "", "", errIncomplete(doing, "token")
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.AuthorizationData[0].AuthorizationToken))
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok || user == "" || password == "" {
		return "", "", errIncomplete(doing, "token of the form USER:PASSWORD")
	}
	return user, password, nil
}
