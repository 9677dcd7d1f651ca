//go:build e2e && linux

package awsapi_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// RegistryLogin works with moto's token, which is a password of the user AWS.
func TestRegistryLoginOfMoto(t *testing.T) {
	served(t)
	user, password, ok, err := awsapi.RegistryLogin(awsapi.Options{})(t.Context(), registryHost)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "AWS", user)
	assert.Equal(t, aws.RegistryPassword, password)
}

func TestRegistryLoginIsReused(t *testing.T) {
	w := served(t)
	w.Answer("ecr:GetAuthorizationToken", `{"authorizationData":[{"authorizationToken":"`+base64.StdEncoding.EncodeToString([]byte("AWS:secret:with a colon"))+`"}]}`)
	t.Setenv("AWS_REGION", "") // the region comes from the registry's name
	login := awsapi.RegistryLogin(awsapi.Options{Pause: time.Millisecond})
	for range 2 {
		user, password, ok, err := login(t.Context(), registryHost)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, "AWS", user)
		assert.Equal(t, "secret:with a colon", password)
	}
	assert.Equal(t, 1, w.Count()["ecr:GetAuthorizationToken"], "the second login must use the first token")
}

func TestFailedRegistryLoginsNameTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*aws.World)
		want   string
	}{
		"denied": {func(w *aws.World) { w.Deny("ecr:GetAuthorizationToken") },
			"logging in to " + registryHost + ": the permission ecr:GetAuthorizationToken is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ecr:GetAuthorizationToken"},
		"throttled all": {func(w *aws.World) { w.Fail("ecr:GetAuthorizationToken", 9, "ThrottlingException", 429) },
			"logging in to " + registryHost + ": ThrottlingException: as the test wants it"},
		"nothing": {func(w *aws.World) { w.Answer("ecr:GetAuthorizationToken", `{"authorizationData":[]}`) }, "logging in to " + registryHost + ": the answer has no token"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			c.change(w)
			_, _, ok, err := awsapi.RegistryLogin(awsapi.Options{Pause: time.Millisecond})(t.Context(), registryHost)
			assert.True(t, ok)
			require.EqualError(t, err, c.want)
		})
	}
	t.Run("no credentials", func(t *testing.T) {
		served(t)
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		_, _, ok, err := awsapi.RegistryLogin(awsapi.Options{})(t.Context(), registryHost)
		assert.True(t, ok)
		require.ErrorContains(t, err, "logging in to "+registryHost+": credentials: none were found; set AWS_ACCESS_KEY_ID")
	})
}
