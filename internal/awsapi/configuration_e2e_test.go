//go:build e2e && linux

package awsapi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// shared writes the AWS CLI's files with profiles and removes credentials from the
// environment.
func shared(t *testing.T, config, credentials string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": credentials} {
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		t.Setenv(name, file)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
}

const keys = "aws_access_key_id = " + aws.AccessKey + "\naws_secret_access_key = secret\n"

// Every source of configuration of the AWS CLI works here too.
func TestProfilesRolesAndCredentialProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		config, credentials string
		options             awsapi.Options
		env                 map[string]string
		roles, calls        int
	}{
		"the default profile":         {"[default]\nregion = eu-west-1\n", "[default]\n" + keys, awsapi.Options{}, nil, 0, 1},
		"a profile by option":         {"[profile p]\nregion = eu-west-1\n", "[p]\n" + keys, awsapi.Options{Profile: "p"}, nil, 0, 1},
		"a profile by environment":    {"[profile p]\nregion = eu-west-1\n", "[p]\n" + keys, awsapi.Options{}, map[string]string{"AWS_PROFILE": "p"}, 0, 1},
		"a region over the profile's": {"[profile p]\nregion = us-east-1\n", "[p]\n" + keys, awsapi.Options{Profile: "p", Region: "eu-west-1"}, nil, 0, 1},
		"a role of the profile": {"[profile p]\nregion = eu-west-1\nrole_arn = arn:aws:iam::111111111111:role/x\nsource_profile = q\n[profile q]\nregion = eu-west-1\n", "[q]\n" + keys,
			awsapi.Options{Profile: "p"}, nil, 1, 1},
		"a role after the profile's": {"[profile p]\nregion = eu-west-1\nrole_arn = arn:aws:iam::111111111111:role/x\nsource_profile = q\n", "[q]\n" + keys,
			awsapi.Options{Profile: "p", AssumeRole: "arn:aws:iam::222222222222:role/y", ExternalID: "y"}, nil, 2, 1},
		"credentials of a process": {"[profile p]\nregion = eu-west-1\ncredential_process = echo '{\"Version\":1,\"AccessKeyId\":\"" + aws.AccessKey + "\",\"SecretAccessKey\":\"s\"}'\n", "",
			awsapi.Options{Profile: "p"}, nil, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			shared(t, c.config, c.credentials)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			a := open(t, c.options)
			assert.Equal(t, "eu-west-1", a.Region)
			_, err := a.Cluster(t.Context(), "my-cluster")
			require.NoError(t, err)
			assert.Equal(t, c.roles, w.Count()["sts:AssumeRole"])
			assert.Equal(t, c.calls, w.Count()["eks:DescribeCluster"])
		})
	}
}

// Endpoints of a service come from the environment and from a profile.
func TestEndpointsOfServices(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, url string){
		"of the service, by environment": func(t *testing.T, url string) { t.Setenv("AWS_ENDPOINT_URL_EKS", url) },
		"of all, by profile": func(t *testing.T, url string) {
			shared(t, "[default]\nregion = eu-west-1\nendpoint_url = "+url+"\n", "[default]\n"+keys)
		},
		"of the service, by profile": func(t *testing.T, url string) {
			shared(t, "[default]\nregion = eu-west-1\nservices = s\n[services s]\neks =\n  endpoint_url = "+url+"\n", "[default]\n"+keys)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := aws.Sample(t).Serve()
			require.NoError(t, os.Unsetenv("AWS_ENDPOINT_URL")) // Serve restores the variable
			set(t, url)
			_, err := open(t, awsapi.Options{}).Cluster(t.Context(), "my-cluster")
			require.NoError(t, err)
		})
	}
}

func TestAttemptsOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		environment string
		options     awsapi.Options
		want        int
	}{
		"of the profile":     {"", awsapi.Options{}, 3},
		"of the environment": {"2", awsapi.Options{}, 2},
		"of an option":       {"2", awsapi.Options{Attempts: 4}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			w.Fail("eks:DescribeCluster", 9, "ThrottlingException", 429)
			shared(t, "[default]\nregion = eu-west-1\nmax_attempts = 3\n", "[default]\n"+keys)
			t.Setenv("AWS_MAX_ATTEMPTS", c.environment)
			_, err := open(t, c.options).Cluster(t.Context(), "my-cluster")
			require.ErrorContains(t, err, "ThrottlingException")
			assert.Equal(t, c.want, w.Count()["eks:DescribeCluster"])
		})
	}
}

// A denied role of a profile gives the same error as a denied role of an option.
func TestADeniedRoleOfTheProfileIsNamed(t *testing.T) {
	w := served(t)
	w.Deny("sts:AssumeRole")
	shared(t, "[profile p]\nregion = eu-west-1\nrole_arn = arn:aws:iam::111111111111:role/x\nsource_profile = q\n", "[q]\n"+keys)
	_, err := awsapi.Open(t.Context(), awsapi.Options{Profile: "p"})
	require.ErrorContains(t, err, "the permission sts:AssumeRole is missing: User: arn:aws:iam::123456789012:user/double is not authorized")
	assert.NotContains(t, err.Error(), "aws sso login", "the credentials exist")
}

// A truncated response is an error of every call. The error names the operation.
func TestTruncatedResponsesAreErrors(t *testing.T) {
	for action, call := range map[string]func(*awsapi.AWS) error{
		"eks:DescribeAccessEntry": func(a *awsapi.AWS) error {
			_, err := a.AccessEntry(t.Context(), "my-cluster", "arn:aws:iam::123456789012:role/node")
			return err
		},
		"eks:ListAddons":                func(a *awsapi.AWS) error { _, err := a.Addons(t.Context(), "my-cluster"); return err },
		"eks:DescribeAddon":             func(a *awsapi.AWS) error { _, err := a.Addons(t.Context(), "my-cluster"); return err },
		"ec2:DescribeInstances":         func(a *awsapi.AWS) error { _, err := a.Instance(t.Context(), "i-1"); return err },
		"ec2:DescribeInstanceAttribute": func(a *awsapi.AWS) error { _, err := a.Instance(t.Context(), "i-1"); return err },
		"ec2:DescribeLaunchTemplateVersions": func(a *awsapi.AWS) error {
			_, err := a.Template(t.Context(), "nodes", "1")
			return err
		},
		"ec2:DescribeSubnets":          func(a *awsapi.AWS) error { _, err := a.Subnets(t.Context(), []string{"subnet-1"}); return err },
		"ec2:DescribeRouteTables":      func(a *awsapi.AWS) error { _, err := a.Subnets(t.Context(), []string{"subnet-1"}); return err },
		"ec2:DescribeSecurityGroups":   func(a *awsapi.AWS) error { _, err := a.SecurityGroups(t.Context(), []string{"sg-node"}); return err },
		"ec2:DescribeNetworkAcls":      func(a *awsapi.AWS) error { _, err := a.ACLs(t.Context(), []string{"subnet-1"}); return err },
		"ec2:DescribeVpcs":             func(a *awsapi.AWS) error { _, err := a.VPC(t.Context(), "vpc-1"); return err },
		"ec2:DescribeVpcAttribute":     func(a *awsapi.AWS) error { _, err := a.VPC(t.Context(), "vpc-1"); return err },
		"ec2:DescribeDhcpOptions":      func(a *awsapi.AWS) error { _, err := a.VPC(t.Context(), "vpc-1"); return err },
		"ec2:DescribeVpcEndpoints":     func(a *awsapi.AWS) error { _, err := a.VPC(t.Context(), "vpc-1"); return err },
		"ec2:DescribeInstanceTypes":    func(a *awsapi.AWS) error { _, err := a.InstanceTypes(t.Context(), []string{"m6i.large"}); return err },
		"ec2:DescribeImages":           func(a *awsapi.AWS) error { _, err := a.ImagesOf(t.Context(), "self"); return err },
		"iam:GetInstanceProfile":       func(a *awsapi.AWS) error { _, err := a.Profile(t.Context(), "nodes"); return err },
		"iam:ListAttachedRolePolicies": func(a *awsapi.AWS) error { _, err := a.Profile(t.Context(), "nodes"); return err },
		"ssm:GetParameter":             func(a *awsapi.AWS) error { _, err := a.Parameter(t.Context(), "/aws/service/al2023"); return err },
		"sts:GetCallerIdentity":        func(a *awsapi.AWS) error { _, err := a.Account(t.Context()); return err },
	} {
		t.Run(action, func(t *testing.T) {
			w := served(t)
			w.Do("ec2:CreateVpcEndpoint", "VpcId", "vpc-1", "ServiceName", "com.amazonaws.eu-west-1.ec2")
			w.Break(action)
			err := call(open(t, awsapi.Options{Attempts: 2}))
			require.Error(t, err)
			assert.Regexp(t, `^(describing|reading|listing|asking) .+: the answer cannot be read: `, err.Error())
		})
	}
}
