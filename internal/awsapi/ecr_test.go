package awsapi_test

import (
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const registryHost = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

// asked is a transport that records the host of a request and fails.
type asked struct{ host string }

func (a *asked) RoundTrip(in *http.Request) (*http.Response, error) {
	a.host = in.URL.Host
	return nil, errors.New("this is a test")
}

// ECR registries of each partition log in at an endpoint of that partition. Other
// registries never get AWS credentials.
func TestLoginEndpointsOfRegistries(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_CA_BUNDLE": "", "AWS_ENDPOINT_URL": "",
	} {
		t.Setenv(name, value)
	}
	for host, want := range map[string]string{
		registryHost: "api.ecr.eu-west-1.amazonaws.com",
		"602401143452.dkr.ecr.us-west-2.amazonaws.com":                "api.ecr.us-west-2.amazonaws.com",
		"602401143452.dkr.ecr-fips.us-west-2.amazonaws.com":           "api.ecr-fips.us-west-2.amazonaws.com",
		"151742754352.dkr.ecr-fips.us-gov-east-1.amazonaws.com":       "api.ecr-fips.us-gov-east-1.amazonaws.com",
		"918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn":            "api.ecr.cn-north-1.amazonaws.com.cn",
		"877088126301.dkr.ecr.eusc-de-east-1.amazonaws.eu":            "api.ecr.eusc-de-east-1.amazonaws.eu",
		"725322719131.dkr.ecr.us-iso-east-1.c2s.ic.gov":               "api.ecr.us-iso-east-1.c2s.ic.gov",
		"187977181151.dkr.ecr.us-isob-east-1.sc2s.sgov.gov":           "api.ecr.us-isob-east-1.sc2s.sgov.gov",
		"249663109785.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk":          "api.ecr.eu-isoe-west-1.cloud.adc-e.uk",
		"676585237158.dkr.ecr.us-isof-south-1.csp.hci.ic.gov":         "api.ecr.us-isof-south-1.csp.hci.ic.gov",
		"123456789012.dkr-ecr.eu-west-1.on.aws":                       "ecr.eu-west-1.api.aws",
		"123456789012.dkr-ecr-fips.us-east-1.on.aws":                  "ecr-fips.us-east-1.api.aws",
		"123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn": "ecr.cn-north-1.api.amazonwebservices.com.cn",

		"public.ecr.aws":  "",
		"registry.k8s.io": "",
		"localhost:5000":  "",
		"12345678901.dkr.ecr.eu-west-1.amazonaws.com":              "",
		"x23456789012.dkr.ecr.eu-west-1.amazonaws.com":             "",
		registryHost + ".example.com":                              "",
		registryHost + ":443":                                      "",
		"123456789012.dkr.ecr.eu-west-1.example.com":               "",
		"123456789012.dkr.ecr.evil.example.com.amazonaws.com":      "",
		"123456789012.dkr.ecr..amazonaws.com":                      "",
		"example.com.123456789012.dkr.ecr.eu-west-1.amazonaws.com": "",
	} {
		t.Run(host, func(t *testing.T) {
			a := &asked{}
			_, _, ok, err := awsapi.RegistryLogin(awsapi.Options{HTTP: &http.Client{Transport: a}, Attempts: 1})(t.Context(), host)
			assert.Equal(t, want != "", ok)
			assert.Equal(t, want != "", err != nil)
			assert.Equal(t, want, a.host, "%v", err)
		})
	}
}
