head -c 524288 /dev/zero | tr '\0' a > a
sum=$(openssl dgst -sha256 -binary a | base64)
id=$(aws ebs start-snapshot --volume-size 1 --timeout 10 --tags Key=k,Value=v --query SnapshotId --output text)
aws ebs put-snapshot-block --snapshot-id $id --block-index 3 --block-data a --data-length 524288 --checksum "$sum" --checksum-algorithm SHA256 --progress 50
all=$(openssl dgst -sha256 -binary a | openssl dgst -sha256 -binary | base64)
aws ebs complete-snapshot --snapshot-id $id --changed-blocks-count 1 --checksum "$all" --checksum-algorithm SHA256 --checksum-aggregation-method LINEAR
token=$(aws ebs list-snapshot-blocks --snapshot-id $id --query 'Blocks[0].BlockToken' --output text)
aws ebs get-snapshot-block --snapshot-id $id --block-index 3 --block-token "$token" b
cmp a b
! aws ebs put-snapshot-block --snapshot-id $id --block-index 0 --block-data a --data-length 524288 --checksum "$sum" --checksum-algorithm SHA256
echo $id > id
python3 client.py
