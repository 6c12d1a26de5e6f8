"""The publishers to Amazon SQS queues and SNS topics."""
