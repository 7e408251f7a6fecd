-- How full the notification queue is, from 0 to 1.
-- locks: none
-- index: none
SELECT pg_notification_queue_usage()
